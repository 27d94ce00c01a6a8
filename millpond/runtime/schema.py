"""A program's elements as a checkpoint records them."""

from __future__ import annotations

from millpond.compiler.compiled import CompiledProgram
from millpond.epochs.manifest import ElementSchema
from millpond.state.typenames import type_text


def element_schemas(program: CompiledProgram) -> tuple[ElementSchema, ...]:
    """The schema of each element, in the order of the declaration."""
    return tuple(
        ElementSchema(
            name=name,
            kind=element.type.kind,
            distribution=element.distribution.value,
            by=element.type.by,
            key=type_text(element.type.key_hint),
            value=type_text(element.type.value_hint),
        )
        for name, element in program.elements.items()
    )
