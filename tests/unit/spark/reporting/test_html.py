"""What notebooks show of reports, progress and errors."""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType, SimpleNamespace

import pytest

from millpond.spark.reporting.html import Notebook
from millpond.spark.reporting.progress import Progress
from millpond.spark.reporting.reports import EpochReport, RunReport


def report(epoch=1, **more):
    return EpochReport(epoch, 1234, 0, 0, 5, 0.5, 0.1, {}, **more)


def test_an_epoch_renders_as_a_table():
    shown = report(ways={"keyed": 1000, "gathered": 234, "in sequence": 0}, late_rows=3)._repr_html_()
    assert shown.startswith("<table><caption>epoch 1</caption>")
    assert "<tr><td>rows</td><td>1,234</td></tr>" in shown
    assert "<td>rows gathered</td><td>234</td>" in shown
    assert "<td>late rows</td><td>3</td>" in shown
    assert "in sequence" not in shown
    assert "bad rows" not in shown


def test_a_run_renders_as_a_table_of_its_last_epochs():
    shown = RunReport(tuple(report(number) for number in range(1, 31)), 30)._repr_html_()
    assert "37,020 rows in 30 epochs, up to epoch 30" in shown
    assert shown.count("<tr>") == 21
    assert "nothing to do" in RunReport((), 4)._repr_html_()


class Shown:
    """What a notebook has on the screen, and how often it was drawn."""

    def __init__(self):
        self.pages = []

    def HTML(self, text):  # noqa: N802
        return text

    def display(self, page, *, display_id):
        self.pages.append(page)
        return SimpleNamespace(update=self.pages.append)


@pytest.fixture
def notebook(monkeypatch):
    shown = Shown()
    shell = type("ZMQInteractiveShell", (), {})()
    ipython = ModuleType("IPython")
    ipython.get_ipython = lambda: shell
    display = ModuleType("IPython.display")
    display.HTML, display.display = shown.HTML, shown.display
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    return shown


def test_progress_is_a_table_in_a_notebook_that_is_drawn_anew(notebook, capsys):
    progress = Progress("Visits <b>")
    progress.epoch(report())
    progress.epoch(report(2))
    progress.stop()
    assert len(notebook.pages) == 2
    assert "<caption>Visits &lt;b&gt; epoch 2</caption>" in notebook.pages[1]
    assert capsys.readouterr().err == ""


def test_nothing_is_shown_in_a_notebook_that_wants_nothing(notebook):
    Progress("Visits", shown=False).epoch(report())
    assert notebook.pages == []


def test_a_terminal_is_no_notebook(monkeypatch):
    ipython = ModuleType("IPython")
    ipython.get_ipython = type("TerminalInteractiveShell", (), {})
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    assert Notebook.here() is None


def test_errors_of_our_own_are_short_where_ipython_shows_them():
    code = """
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance(colors="NoColor")
shell.run_cell("import millpond\\nmillpond.open('/nowhere/at/all')")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    lines = done.stdout.strip().splitlines()
    assert lines[0].startswith("MP350 there is no checkpoint here")
    assert len(lines) <= 4
