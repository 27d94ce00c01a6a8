"""Entry points that change nothing, run by a follower as plain Python on the state of one epoch.

Which ones these are, the compiler says: all of whose accesses only read, and refresh no time to live. Of an entry point
that runs in sequence it can't say that. If a change is written in it, or in a helper that it reaches, it is refused;
else it is tried on a state of its own, and its answer counts if it left the state as it was. So what is refused has
left nothing: nobody else has the state that it ran on.
"""

from __future__ import annotations

import ast
import inspect
import tempfile
import textwrap
import threading
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from millpond.checkpoint.commit.commit import parent_of
from millpond.checkpoint.read.history import Point
from millpond.checkpoint.records.manifest import Genesis
from millpond.checkpoint.records.times import Times
from millpond.compiler.compile import compile_program
from millpond.compiler.compiled import CompiledProgram
from millpond.engine.plan import BadRows, FeedPlan, Order, ProgramPlan
from millpond.engine.sequence.spilled import Spilled
from millpond.engine.sequence.state import SequenceState
from millpond.engine.sequence.ways import HOME, as_in_sequence
from millpond.errors import ServeError
from millpond.keygroups import Layout
from millpond.program.declare import Element
from millpond.program.entries import EntryPoint
from millpond.program.program import ProgramBase
from millpond.program.semantics.epoch_time import epoch_time
from millpond.program.semantics.reach import names_in_reach
from millpond.serve.replica import Held

IDLE_MAX = 8
"""So many states of an epoch wait for the next question, each with what was read so far."""

IDLE_ENTRIES = 50_000
"""So many entries that were read such a state may hold."""


@dataclass(frozen=True, slots=True)
class Served:
    """An entry point that a follower answers; `proven` if the compiler knows that it changes nothing."""

    point: EntryPoint
    proven: bool


class Answering:
    """Runs the entry points of a program; may be asked by several threads."""

    def __init__(self, program: type[ProgramBase], genesis: Genesis) -> None:
        compiled = compile_program(program)
        self._program = as_in_sequence(compiled)
        self._genesis = genesis
        self.entries: Mapping[str, Served] = _served(program, compiled)
        self._changing = sorted(compiled.entries.keys() - self.entries.keys())
        self._idle: tuple[str, list[SequenceState]] = ("", [])
        self._lock = threading.Lock()

    def ask(
        self,
        held: Held,
        point: Point,
        entry: str,
        arguments: Sequence[Any] = (),
        named: Mapping[str, Any] | None = None,
    ) -> Any:
        """Return the reply of an entry point to these arguments, on the state of an epoch."""
        served = self.served(entry)
        columns = [[value] for value in bound(served.point, arguments, named or {})]
        function = self._program.entries[entry].tasks[0].function
        out: list[Any] = []
        with epoch_time(time_of(point)):
            state = self._take(held, point) if served.proven else self._made(held, point)
            with state.at_work():
                function(out, state, *(columns or [[None]]))
            if not served.proven:
                if state.changes().keys:
                    raise self._refusal(entry)
            elif sum(dict.__len__(overlay.entries) for overlay in state.overlays) <= IDLE_ENTRIES:
                self._put_back(point, state)
        return out[0]

    def served(self, entry: str) -> Served:
        """Return an entry point that may be asked; one that changes state is refused."""
        if entry in self._changing:
            raise self._refusal(entry)
        if entry not in self.entries:
            raise ServeError(
                "MP881",
                "there is no such entry point to ask",
                expected=", ".join(self.entries) or "none: all entry points of the program change state",
                found=ascii(entry)[:80],
            )
        return self.entries[entry]

    def _refusal(self, entry: str) -> ServeError:
        return ServeError(
            "MP882",
            f"`{entry}` changes state, and a follower only reads",
            expected=", ".join(self.entries) or "an entry point that changes nothing",
            found=entry,
            hint="feed it to the job; a change in place and a time to live that access renews are changes, too",
        )

    @staticmethod
    def nobody() -> ServeError:
        """Return the error for entry points of a checkpoint that is followed without its program."""
        return ServeError(
            "MP881",
            "there is no such entry point to ask",
            expected="the program, as in follow(checkpoint, Shop) or `millpond serve CHECKPOINT shop:Shop`",
            found="a checkpoint alone",
        )

    def _take(self, held: Held, point: Point) -> SequenceState:
        """Return a state that nobody uses, with what was read of the same epoch if there is one."""
        with self._lock:
            mark, idle = self._idle
            if mark == point.hash and idle:
                return idle.pop()
        return self._made(held, point)

    def _put_back(self, point: Point, state: SequenceState) -> None:
        with self._lock:
            if self._idle[0] != point.hash:
                self._idle = point.hash, []
            if len(self._idle[1]) < IDLE_MAX:
                self._idle[1].append(state)

    def forget(self) -> None:
        """Hold no state of any epoch."""
        with self._lock:
            self._idle = "", []

    def _made(self, held: Held, point: Point) -> SequenceState:
        layout = Layout(self._genesis.key_groups, 1, point.instances, aligned=False)
        plan = ProgramPlan(
            self._program,
            layout,
            (_unfed(self._program),),
            storage_url="",
            local_root=tempfile.gettempdir(),
            elements=point.elements,
        )
        base = Spilled(held, Path(plan.local_root))
        state = SequenceState(plan, 0, HOME, base, range(layout.key_groups), over=dict(point.over_us))
        state.prepare(parent_of(self._genesis, point.manifest, point.hash), base)
        return state


def bound(point: EntryPoint, arguments: Sequence[Any], named: Mapping[str, Any]) -> list[Any]:
    """Return the arguments of a call in the order of the parameters, with defaults where they are left out."""
    names = [name for name, _ in point.parameters]
    given = dict(zip(names, arguments, strict=False))
    if len(arguments) > len(names) or given.keys() & named.keys() or named.keys() - set(names):
        raise _misfit(point, [*map(repr, arguments), *named])
    given.update(named)
    defaults = dict(point.defaults)
    if missing := [name for name in names if name not in given and name not in defaults]:
        raise _misfit(point, [f"no {name}" for name in missing])
    return list(point.filled([given.get(name) for name in names]))


def _misfit(point: EntryPoint, found: Sequence[str]) -> ServeError:
    return ServeError(
        "MP883",
        f"these are no arguments of `{point.name}`",
        expected=f"{point.name}{inspect.signature(point.function)}".replace("(self, ", "(").replace("(self)", "()"),
        found=", ".join(found)[:200],
    )


def time_of(point: Point) -> int:
    """Return the time of an epoch in microseconds since 1970, as far as its manifest tells; else its beginning, 0."""
    times = Times() if point.manifest is None else point.manifest.times
    if times.event is None:
        return times.now_us or 0
    seen = [mark.seen_us for mark in times.event.feeds.values() if mark.seen_us is not None]
    if times.event.ended:
        return max(seen, default=0)
    return times.event.watermark_us or 0


def _served(program: type[ProgramBase], compiled: CompiledProgram) -> dict[str, Served]:
    renewing = {name for name, one in compiled.elements.items() if one.ttl is not None and one.ttl.on_access}
    found: dict[str, Served] = {}
    for name, entry in compiled.entries.items():
        touched = {access.state for task in entry.tasks for access in task.accesses}
        if entry.point.timer or (renewing & touched and not compiled.graph.why_sequence(name)):
            continue
        if entry.reads_only or (compiled.graph.why_sequence(name) and not _changes(program, entry.point)):
            found[name] = Served(entry.point, proven=entry.reads_only)
    return found


def _changes(program: type[ProgramBase], point: EntryPoint) -> bool:
    """Say whether a change of state is written in a method, or in one of the program's own that it reaches."""
    named = names_in_reach(program, point.function)
    reached = (inspect.getattr_static(program, name, None) for name in sorted(named))
    functions: list[Callable[..., Any]] = [point.function]
    functions += [one for one in reached if isinstance(one, types.FunctionType)]
    return any(_is_change(node, program.elements()) for one in functions for node in ast.walk(_tree(one)))


def _tree(function: Callable[..., Any]) -> ast.AST:
    return ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(function))))


def _is_change(node: ast.AST, elements: Mapping[str, Element]) -> bool:
    match node:
        case ast.Subscript(ctx=ast.Store() | ast.Del(), value=owner):
            return _element_in(owner) in elements
        case ast.Call(func=ast.Attribute(value=owner, attr=name)) if (element := _element_in(owner)) in elements:
            operation = elements[element].type.operations.get(name)
            return operation is not None and operation.writes
    return False


def _element_in(node: ast.AST) -> str:
    """Return the name of the attribute that is used, as in `self.accounts` or `each(self.accounts)`; "" if none is."""
    match node:
        case ast.Call(func=ast.Name(), args=[only]):
            return _element_in(only)
        case ast.Attribute(value=ast.Name(), attr=name):
            return name
    return ""


def _unfed(program: CompiledProgram) -> FeedPlan:
    """Return a feed without event time, for a plan that no rows are fed to."""
    name = next(iter(program.entries))
    return FeedPlan(name, name, (), Order.NONE, BadRows.FAIL, None, None)
