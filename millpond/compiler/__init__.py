"""The compiler: from a Python class to tasks, levels and generated code."""

from __future__ import annotations

from millpond.compiler.compile import compile_program
from millpond.compiler.compiled import CompiledEntry, CompiledProgram, CompiledTask, Reply

__all__ = ["CompiledEntry", "CompiledProgram", "CompiledTask", "Reply", "compile_program"]
