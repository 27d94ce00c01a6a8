"""A program's elements as a checkpoint records them."""

from __future__ import annotations

from millpond.checkpoint.read.typetexts import read_type
from millpond.checkpoint.records.manifest import ElementSchema
from millpond.compiler.compiled import CompiledProgram
from millpond.program.declare import Element
from millpond.state.codec.shapes import TypeShape, shape_of
from millpond.state.codec.typenames import type_text
from millpond.state.containers.element import ElementType
from millpond.windowing.element import WindowsType


def element_schemas(program: CompiledProgram) -> tuple[ElementSchema, ...]:
    """Return the schema of each element, in the order of the declaration."""
    return tuple(element_schema(name, element) for name, element in program.elements.items())


def element_schema(name: str, element: Element) -> ElementSchema:
    """Return the schema of one element of those that are stored."""
    return ElementSchema(
        name=name,
        kind=element.type.kind,
        distribution=element.distribution.value,
        by=element.type.by,
        key=type_text(element.type.keys.stored),
        value=type_text(element.type.value_hint),
        shape=_shape(element.type),
        windows=element.type.rules.note if isinstance(element.type, WindowsType) else None,
    )


def _shape(element: ElementType) -> TypeShape | None:
    """Return what values look like, unless the text of their type says all of it."""
    certain = read_type(type_text(element.value_hint)).certain
    return None if certain else shape_of(element.value_hint)
