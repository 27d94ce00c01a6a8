"""The containers of state: what a program's elements are made of, one a file.

In reading order: `access`, `element`, `map`, `set`, `list`, `counter`, `value`, `vector`, `matrix`, `ondemand`.
"""
