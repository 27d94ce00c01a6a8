"""The compiler: from a Python class to tasks, levels and generated code.

In reading order: `compile`, `draft`, `compiled`, `obstacles`, `diagnostics`, `front/`, `ir/`, `analysis/`, `plan/`,
`back/`, `survey`, `explain`, `reorder`, `independent`.
"""

from __future__ import annotations

from millpond.compiler.compile import compile_program
from millpond.compiler.compiled import CompiledEntry, CompiledProgram, CompiledTask, KeySets, Reply

__all__ = ["CompiledEntry", "CompiledProgram", "CompiledTask", "KeySets", "Reply", "compile_program"]
