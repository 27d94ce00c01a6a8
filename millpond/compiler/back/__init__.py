"""Generated code, and the compiled program.

In reading order: `codegen`, `rewrite`, `key_code`, `window_adds`, `direct`, `sequence`, `assemble`.
"""
