"""Reports and progress as notebooks show them."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from html import escape
from typing import TYPE_CHECKING, Any

from millpond.checkpoint.read.plain import printable

if TYPE_CHECKING:
    from millpond.spark.reporting.reports import EpochReport, RunReport

_ROWS_MAX = 20
"""How many epochs of a run are shown."""

_SHELLS = ("ZMQInteractiveShell", "Shell", "DatabricksShell")
"""What notebooks call the shell that they run code in; that of a terminal shows text."""


def epoch_html(report: EpochReport, title: str = "") -> str:
    """Return the figures of an epoch that are of use to people, as a table."""
    return _table(f"{title} epoch {report.epoch}".strip(), _figures(report))


def _figures(report: EpochReport) -> list[tuple[str, str]]:
    found = [
        ("rows", f"{report.rows:,}"),
        ("rows/s", f"{report.rows_per_second:,.0f}"),
        *((f"rows {way}", f"{count:,}") for way, count in report.ways.items() if 0 < count < report.rows),
        ("bad rows", f"{report.bad_rows:,}" if report.bad_rows else ""),
        ("late rows", f"{report.late_rows:,}" if report.late_rows else ""),
        ("replies", f"{report.replies:,}"),
        ("state entries", f"{report.entries:,}"),
        ("seconds", f"{report.seconds:.2f}"),
        ("commit", f"{report.commit_seconds * 1000:.0f} ms"),
        ("watermark", "" if report.watermark is None else f"{report.watermark:%Y-%m-%d %H:%M:%S}"),
        ("rows that wait", f"{report.queued_rows:,}" if report.queued_rows else ""),
    ]
    return [(name, shown) for name, shown in found if shown]


def run_html(report: RunReport) -> str:
    """Return what a run did, with its last epochs, as a table."""
    if not report.epochs:
        return f"<p>nothing to do: all of it was committed up to epoch {report.epoch}</p>"
    shown = report.epochs[-_ROWS_MAX:]
    names = list(dict.fromkeys(name for epoch in shown for name, _ in _figures(epoch)))
    lines = [[str(epoch.epoch), *(dict(_figures(epoch)).get(name, "") for name in names)] for epoch in shown]
    head = f"{report.rows:,} rows in {len(report.epochs):,} epochs, up to epoch {report.epoch}"
    cells = "".join(_line("td", one) for one in lines)
    return f"<p>{escape(head)}</p><table>{_line('th', ['epoch', *names])}{cells}</table>"


def _table(title: str, figures: list[tuple[str, str]]) -> str:
    cells = "".join(_line("td", pair) for pair in figures)
    return f"<table><caption>{escape(printable(title))}</caption>{cells}</table>"


def _line(tag: str, cells: Iterable[str]) -> str:
    return f"<tr>{''.join(f'<{tag}>{escape(printable(cell))}</{tag}>' for cell in cells)}</tr>"


class Notebook:
    """A place in the output of a cell that is written over again."""

    def __init__(self, display: Any) -> None:
        self._display = display
        self._handle: Any = None

    @classmethod
    def here(cls) -> Notebook | None:
        """Return the notebook that this process runs the cells of; None elsewhere."""
        ipython = sys.modules.get("IPython")
        shell = None if ipython is None else ipython.get_ipython()
        if type(shell).__name__ not in _SHELLS:
            return None
        from importlib import import_module

        return cls(import_module("IPython.display"))

    def show(self, html: str) -> None:
        """Show a page in the place of the one before."""
        page = self._display.HTML(html)
        if self._handle is None:
            self._handle = self._display.display(page, display_id=True)
        else:
            self._handle.update(page)
