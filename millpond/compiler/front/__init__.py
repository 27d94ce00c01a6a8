"""Methods as they are written: their syntax, their names, and what none of them may do.

In reading order: `source`, `scope`, `callees`, `inlining/`, `ambient`, `restrict`, `methods`, `determinism`,
`meanings`, `bindings`.
"""
