"""Epochs, elements, values and changes of a checkpoint: as JSON, and as tables and lines for people."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import typer
from rich import box
from rich.console import Console
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from millpond.checkpoint.read.entries import Change, Kind, diff, lookup, sides, sizes
from millpond.checkpoint.read.history import History, Point
from millpond.checkpoint.read.keytexts import parse_key
from millpond.checkpoint.read.plain import as_json, as_text, json_text, printable
from millpond.checkpoint.records.manifest import EpochDeltas, Manifest, StateFile
from millpond.checkpoint.records.offers import Batch, BoundedRun, sources_of
from millpond.cli.terminal import error_fields
from millpond.errors import MillpondError, StateError
from millpond.program.semantics.epoch_time import moment_of
from millpond.storage.addresses import shown_url

Begin = Callable[[int], Callable[[int], None]]
"""Is given how many bytes will be read, and returns what is given those of each file."""

Report = dict[str, Any]
"""What `--json` prints."""

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

FED = "fed."
"""How the counters of rows begin, one for each feed."""

ENTRIES = "total.entries"
"""The counter of entries in the whole state, as the job counted them."""

VALUE_CHARS_MAX = 400
"""Longer values are cut for people; `--json` shows them whole."""

_SIGNS = {Kind.ADDED: ("+", "green"), Kind.CHANGED: ("~", "yellow"), Kind.REMOVED: ("-", "red")}


def epoch_line(history: History, epoch: int) -> Report:
    """Return what a listing says of a kept epoch; `error` if its manifest can't be read."""
    try:
        manifest, digest = history.manifest(epoch)
    except MillpondError as error:
        return {"epoch": epoch, "error": error_fields(error)}
    own = manifest.deltas[-1]
    return {
        "epoch": epoch,
        "hash": digest,
        **_offered(manifest),
        "instances": history.instances_of(manifest),
        "partitions": manifest.partitions,
        "rows": sum(count for name, count in manifest.counters.items() if name.startswith(FED)),
        "entries": manifest.counters.get(ENTRIES),
        "changes": sum(state_file.entries for state_file in own.files),
        "delta_bytes": _bytes(own.files),
        "snapshot_epoch": manifest.snapshot_epoch,
        "snapshot_bytes": _bytes(manifest.snapshot),
        "pending_files": len(manifest.pending),
    }


def _offered(manifest: Manifest) -> Report:
    """Return what an epoch applied, in words, and by its names if it had rows."""
    offer = manifest.offer
    return {
        "applied": str(offer),
        "query": offer.query if isinstance(offer, Batch) else None,
        "batch": offer.number if isinstance(offer, Batch) else None,
        "run": offer.name if isinstance(offer, BoundedRun) else None,
    }


def _bytes(files: tuple[StateFile, ...]) -> int:
    return sum(state_file.file.size_bytes for state_file in files)


def listing(history: History, lines: list[Report]) -> Report:
    """Return a checkpoint and its kept epochs."""
    genesis = history.genesis
    return {
        "ok": not any("error" in line for line in lines),
        "checkpoint": shown_url(history.storage.url),
        "uuid": genesis.uuid,
        "key_groups": genesis.key_groups,
        "instances": genesis.instances,
        "kept": len(history.epochs),
        "epochs": lines,
    }


def print_listing(console: Console, history: History, lines: list[Report]) -> None:
    """Print the kept epochs as a table."""
    table = _table(">epoch", "batch", ">parts", ">rows", ">entries", ">changes", ">delta", "snapshot")
    for line in lines:
        if "error" in line:
            table.add_row(str(line["epoch"]), Text(line["error"]["code"], style="red"))
            continue
        table.add_row(
            str(line["epoch"]),
            Text(_batch({**line, "query": line["query"] and _short(line["query"])})),
            *("" if line[name] is None else f"{line[name]:,}" for name in ("partitions", "rows", "entries", "changes")),
            decimal(line["delta_bytes"]),
            f"epoch {line['snapshot_epoch']}, {decimal(line['snapshot_bytes'])}" if line["snapshot_epoch"] else "",
        )
    kept = f"{len(history.epochs):,} epochs kept"
    more = f", the newest {len(lines)} shown" if len(lines) < len(history.epochs) else ""
    console.print(Text(f"{printable(shown_url(history.storage.url))}: {kept}{more}"), soft_wrap=True)
    if lines:
        console.print(table)
    for error in (line["error"] for line in lines if "error" in line):
        console.print(Text(printable(f"{error['code']} {error['summary']}"), style="bold red"), soft_wrap=True)


def _batch(line: Report) -> str:
    """Return what an epoch applied, in a few words."""
    words = line["applied"] if line["query"] is None else f"batch {line['batch']} of {line['query']}"
    return printable(words + (", to be continued" if line["pending_files"] else ""))


def _short(query: str) -> str:
    """Return the first part of the UUID that Spark gives a query; names of other origin as they are."""
    return query[:8] if _UUID.fullmatch(query) else query


def epoch_report(history: History, point: Point, begin: Begin, *, by_group: bool) -> Report:
    """Return one epoch in full; the whole state is read to count it."""
    progress = begin(_bytes(point.files()))
    entries: Counter[int] = Counter()
    stored: Counter[int] = Counter()
    groups: dict[int, list[Report]] = {}
    for size in sizes(history, point, progress):
        entries[size.element] += size.entries
        stored[size.element] += size.size_bytes
        found = {"group": size.group, "entries": size.entries, "bytes": size.size_bytes}
        groups.setdefault(size.element, []).append(found)
    elements = []
    for index, schema in enumerate(point.elements):
        if schema is None:
            continue
        named = {"name": schema.name, "kind": schema.kind, "distribution": schema.distribution, "by": schema.by}
        types = {"key": schema.key, "value": schema.value}
        amount = {"entries": entries[index], "bytes": stored[index]}
        elements.append({**named, **types, **amount} | ({"groups": groups.get(index, [])} if by_group else {}))
    report = {
        "checkpoint": shown_url(history.storage.url),
        "uuid": history.genesis.uuid,
        "key_groups": history.genesis.key_groups,
        "epoch": point.epoch,
        "hash": point.hash,
        "instances": point.instances,
        "elements": elements,
    }
    return report | ({} if point.manifest is None else _manifest_report(point.manifest))


def _manifest_report(manifest: Manifest) -> Report:
    return {
        "parent": manifest.parent,
        **_offered(manifest),
        "sources": list(sources_of(manifest.offer)),
        "stream": None
        if manifest.stream is None
        else {"query": manifest.stream.query, "batch": manifest.stream.number},
        "runs": list(manifest.runs),
        "partitions": manifest.partitions,
        "counters": dict(manifest.counters),
        "watermark": _watermark(manifest),
        "outputs": [
            {
                "sink": output.sink,
                "file": output.file.name,
                "root": output.root,
                "rows": output.rows,
                "bytes": output.file.size_bytes,
                "visible": output.visible,
            }
            for output in manifest.outputs
        ],
        "snapshot_epoch": manifest.snapshot_epoch,
        "snapshot": [_file(state_file) for state_file in manifest.snapshot],
        "deltas": [_delta(delta) for delta in manifest.deltas],
        "pending": [{"file": ref.name, "bytes": ref.size_bytes} for ref in manifest.pending],
    }


def _watermark(manifest: Manifest) -> str | None:
    """Return how far event time has come, as people write it; None without event time."""
    event = manifest.times.event
    if event is None:
        return None
    if event.ended:
        return "the end of time"
    return "none yet" if event.watermark_us is None else moment_of(event.watermark_us).isoformat()


def _file(state_file: StateFile) -> Report:
    return {
        "file": state_file.file.name,
        "bytes": state_file.file.size_bytes,
        "first_group": state_file.first_group,
        "last_group": state_file.last_group,
        "entries": state_file.entries,
    }


def _delta(delta: EpochDeltas) -> Report:
    more: Report = {"bounded_loss": [name for name, _ in delta.lazy]} if delta.lazy else {}
    if delta.loss is not None:
        more["loss"] = str(delta.loss)
    files = [_file(state_file) for state_file in delta.files]
    return {"epoch": delta.epoch, "parent": delta.parent, "files": files, **more}


def print_report(console: Console, report: Report) -> None:
    """Print one epoch for people."""
    console.print(Text(f"epoch {report['epoch']} of {printable(report['checkpoint'])}", style="bold"), soft_wrap=True)
    facts = _table("", "", header=False)
    if "applied" in report:
        facts.add_row("batch", Text(_batch({**report, "pending_files": report["pending"]})))
        facts.add_row("sources", Text(printable(", ".join(report["sources"])) or "none"))
        facts.add_row("partitions", str(report["partitions"]))
        if report["watermark"] is not None:
            facts.add_row("watermark", report["watermark"])
    facts.add_row("key groups", str(report["key_groups"]))
    if any(element["distribution"] == "partial" for element in report["elements"]):
        facts.add_row("instances", str(report["instances"]))
    facts.add_row("hash", report["hash"])
    facts.add_row("checkpoint", report["uuid"])
    console.print(facts)
    _print_elements(console, report["elements"])
    if "applied" not in report:
        return
    if report["counters"]:
        counters = _table("counter", ">")
        for name, count in report["counters"].items():
            counters.add_row(Text(printable(name)), f"{count:,}")
        console.print(counters)
    if report["outputs"]:
        outputs = _table("output", "file", ">rows", ">bytes")
        for output in report["outputs"]:
            place = printable(f"{output['root']}/{output['file']}") if output["visible"] else printable(output["file"])
            outputs.add_row(
                Text(printable(output["sink"])), Text(place), f"{output['rows']:,}", decimal(output["bytes"])
            )
        console.print(outputs)
    _print_files(console, report)


def _print_elements(console: Console, elements: list[Report]) -> None:
    table = _table("element", "kind", "key", "value", "distribution", ">entries", ">bytes")
    for element in elements:
        kind = f"{element['kind']} by {element['by']}" if element["by"] else element["kind"]
        key = "" if element["kind"] == "value" else element["key"]
        value = "" if element["kind"] == "set" else element["value"]
        names = (element["name"], kind, key, value, element["distribution"])
        amount = (f"{element['entries']:,}", decimal(element["bytes"]))
        table.add_row(*(Text(printable(name)) for name in names), *amount)
        for group in element.get("groups", ()):
            amount = (f"{group['entries']:,}", decimal(group["bytes"]))
            table.add_row("", Text(f"group {group['group']}", style="dim"), "", "", "", *amount)
    console.print(table)


def _print_files(console: Console, report: Report) -> None:
    table = _table("file", "of", "key groups", ">entries", ">bytes")
    chunks = [(f"snapshot of epoch {report['snapshot_epoch']}", chunk) for chunk in report["snapshot"]]
    deltas = [(f"changes of epoch {delta['epoch']}", file) for delta in report["deltas"] for file in delta["files"]]
    for of, file in (*chunks, *deltas):
        spans = f"{file['first_group']} to {file['last_group']}"
        table.add_row(Text(printable(file["file"])), of, spans, f"{file['entries']:,}", decimal(file["bytes"]))
    for file in report["pending"]:
        table.add_row(Text(printable(file["file"])), "messages for the next epoch", "", "", decimal(file["bytes"]))
    if table.row_count:
        console.print(table)


@dataclass(frozen=True, slots=True)
class ValueReport:
    """The value of a key, or that of each instance that has it."""

    epoch: int
    element: str
    key: Any
    partial: bool
    found: list[tuple[int | None, Any]]

    def as_json(self) -> Report:
        """Return the report for programs."""
        head = {"epoch": self.epoch, "element": self.element, "key": as_json(self.key)}
        if not self.partial:
            return {**head, "value": as_json(self.found[0][1])}
        return {**head, "instances": [{"instance": number, "value": as_json(value)} for number, value in self.found]}

    def print(self, console: Console) -> None:
        """Print the value alone, or a table of instances."""
        if not self.partial:
            console.print(Text(as_text(self.found[0][1])), soft_wrap=True)
            return
        table = _table(">instance", "value")
        for number, value in self.found:
            table.add_row(str(number), Text(as_text(value), overflow="fold"))
        console.print(table)


def value_report(
    history: History, epoch: int | None, element: str, key_text: str | None, instance: int | None
) -> ValueReport:
    """Look a key up, given as text; raises if there is no such element, instance or key."""
    point = history.point(epoch)
    reader = history.reader(element, point)
    key = parse_key(reader, key_text)
    found = [(entry.instance, entry.value) for entry in lookup(history, point, element, key, instance)]
    if not found:
        raise StateError(
            "MP242",
            f"`{element}` has no such key at epoch {point.epoch}",
            expected="a key that was set" if reader.has_keys else "a value that was set",
            found=as_text(key)[:80] if reader.has_keys else "none",
            hint="`millpond state export` writes all keys to a file",
        )
    return ValueReport(point.epoch, element, key, reader.partial, found)


def print_lines(history: History, before: Point, after: Point, names: Iterable[str]) -> int:
    """Print each change as a line of JSON, and the totals as the last line; return how many there are."""
    counts: Counter[Kind] = Counter()
    for name in names:
        reader = sides(history, before, after, name)[1]
        for change in diff(history, before, after, name):
            counts[change.kind] += 1
            line: dict[str, Any] = {"element": name, "change": change.kind.value}
            line |= {"instance": change.instance} if reader.partial else {}
            line |= {"key": as_json(change.key)} if reader.has_keys else {}
            line |= {"old": as_json(change.old)} if change.kind is not Kind.ADDED and reader.has_values else {}
            line |= {"new": as_json(change.new)} if change.kind is not Kind.REMOVED and reader.has_values else {}
            typer.echo(json_text(line))
    typer.echo(json_text({"from": before.epoch, "to": after.epoch, **{kind.value: counts[kind] for kind in Kind}}))
    return counts.total()


def print_changes(
    console: Console, history: History, before: Point, after: Point, names: Iterable[str], begin: Begin
) -> int:
    """Print each change as a line, under the name of its element, and the totals; return how many there are."""
    counts: Counter[Kind] = Counter()
    files = {state_file.file.name: state_file.file.size_bytes for state_file in (*before.files(), *after.files())}
    for name in names:
        reader = sides(history, before, after, name)[1]
        fresh = True
        for change in diff(history, before, after, name, begin(sum(files.values()))):
            if fresh:
                console.print(Text(printable(str(reader.schema)), style="bold"), soft_wrap=True)
                fresh = False
            counts[change.kind] += 1
            sign, style = _SIGNS[change.kind]
            words = _change_words(change, has_keys=reader.has_keys, has_values=reader.has_values)
            console.print(Text(f"  {sign} {words}", style=style), soft_wrap=True)
    totals = ", ".join(f"{counts[kind]:,} {kind.value}" for kind in Kind)
    console.print(Text(f"epoch {before.epoch} to {after.epoch}: {totals}"), soft_wrap=True)
    return counts.total()


def _change_words(change: Change, *, has_keys: bool, has_values: bool) -> str:
    key = _cut(change.key) if has_keys else ""
    where = key if change.instance is None else f"{key} in instance {change.instance}".strip()
    if not has_values:
        return where
    old, new = _cut(change.old), _cut(change.new)
    text = {Kind.ADDED: new, Kind.CHANGED: f"{old} -> {new}", Kind.REMOVED: old}[change.kind]
    return f"{where}: {text}" if where else text


def _cut(value: object) -> str:
    text = as_text(value)
    return text if len(text) <= VALUE_CHARS_MAX else f"{text[:VALUE_CHARS_MAX]}..."


def _table(*names: str, header: bool = True) -> Table:
    table = Table(box=box.SIMPLE, show_header=header, pad_edge=False)
    for name in names:
        table.add_column(name.removeprefix(">"), justify="right" if name.startswith(">") else "left", overflow="fold")
    return table
