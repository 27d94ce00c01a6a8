"""The flat form as text, for people and golden files."""

from __future__ import annotations

from collections.abc import Iterator

from millpond.compiler.ir.model import NOTHING, Flat, Instr, Op


def flat_lines(flat: Flat) -> Iterator[str]:
    """Write one line for each instruction; those that are jumped to bear their number."""
    aims = {instr.target for instr in flat.instrs}
    for number, instr in enumerate(flat.instrs):
        yield (f"@{number}: " if number in aims else "") + instr_text(instr)
    if len(flat.instrs) in aims:
        yield f"@{len(flat.instrs)}: end"


def instr_text(instr: Instr) -> str:
    """Write an instruction as it would be written in Python, or nearly so."""
    match instr.op:
        case Op.BRANCH:
            return f"unless {instr.args[0]}: go to @{instr.target}" if instr.args else f"perhaps go to @{instr.target}"
        case Op.JUMP:
            return f"go to @{instr.target}"
        case Op.SET_ATTRIBUTE:
            return f"{instr.args[0]}.{instr.name} = {instr.args[1]}"
        case Op.ADD:
            return f"add {' : '.join((*instr.args[2:], instr.args[1]))} to {instr.args[0]}"
        case Op.SET_ITEM:
            return f"{instr.args[0]}[{', '.join(instr.args[2:])}] = {instr.args[1]}"
    value = _value(instr)
    return f"{instr.out} = {value}" if instr.out else value


def _value(instr: Instr) -> str:
    args = _arguments(instr)
    match instr.op:
        case Op.CONST:
            return repr(instr.meaning)
        case Op.OUTER:
            return f"outer {instr.name}"
        case Op.COPY:
            return instr.args[0]
        case Op.OPERATE:
            return f" {instr.name} ".join(instr.args) if len(instr.args) > 1 else f"{instr.name} {args}".rstrip()
        case Op.AUGMENT:
            return f"{instr.args[0]} {instr.name}= {instr.args[1]}"
        case Op.ATTRIBUTE:
            return f"{instr.args[0]}.{instr.name}"
        case Op.ITEM:
            return f"{instr.args[0]}[{', '.join(instr.args[1:])}]"
        case Op.METHOD:
            return f"{instr.args[0]}.{instr.name}({args})"
        case Op.CALL:
            called = instr.args[0] if instr.meaning is NOTHING else getattr(instr.meaning, "__name__", instr.name)
            return f"{called}({args})"
        case Op.STATE:
            return _state(instr)
        case Op.MAKE:
            return f"{instr.name}({args})"
    return f"{instr.op.value} {instr.name + ' ' if instr.name else ''}{args}".rstrip()


def _state(instr: Instr) -> str:
    assert instr.site is not None
    asked = "each " if instr.site.everywhere else ""
    return f"{asked}self.{instr.site.element}.{instr.name}({', '.join(instr.args)})"


def _arguments(instr: Instr) -> str:
    skipped = len(instr.args) - len(instr.given)
    shown = [f"*{arg}" if at in instr.stars else arg for at, arg in enumerate(instr.args)]
    named = len(shown) - len(instr.words)
    shown = [*shown[skipped:named], *(f"{word}={arg}" for word, arg in zip(instr.words, shown[named:], strict=True))]
    return ", ".join(shown)
