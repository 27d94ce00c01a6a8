"""Storage: bytes under a name, put once, durable on return, checked when read.

In reading order: `contract`, `frame`, `content`, `door`, `addresses`, `open`,
`backends/`, `composed/`.
"""
