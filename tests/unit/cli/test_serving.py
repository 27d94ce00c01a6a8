"""`millpond serve` as a process of its own."""

from __future__ import annotations

import builtins
import signal
import subprocess
import sys

import httpx
import pytest
from typer.testing import CliRunner

from millpond.cli import app
from millpond.engine.simulated import Simulated
from tests.programs.served import Shop
from tests.sizes import compile_once
from tests.tidy.tree import ROOT


@pytest.fixture
def checkpoint(tmp_path):
    Simulated(compile_once(Shop), tmp_path, partitions=2).epoch([("pay", ("ann", 1, 5))])
    return str(tmp_path / "checkpoint")


def test_it_answers_until_it_is_told_to_end(checkpoint, tmp_path):
    words = ["serve", checkpoint, "tests.programs.served:Shop", "--port", "0", "--folder", str(tmp_path / "copy")]
    code = "import sys; from millpond.cli import main; sys.argv[0] = 'millpond'; main()"
    process = subprocess.Popen([sys.executable, "-c", code, *words], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        said = process.stdout.readline()
        assert "at epoch 1" in said
        url = said.split()[0]
        assert httpx.post(f"{url}/balance", json={"name": "ann"}).json()["reply"] == {"owner": "ann", "balance": 5}
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(600)
        process.stdout.close()
    assert process.returncode in (0, 130, -signal.SIGTERM)


def test_no_checkpoint_no_server(tmp_path):
    result = CliRunner().invoke(app, ["serve", str(tmp_path / "nothing")])
    assert (result.exit_code, "MP350" in result.output) == (1, True)


def test_what_is_not_installed_is_named(checkpoint, monkeypatch):
    imported = builtins.__import__

    def missing(name, *more, **named):
        if name.startswith("millpond.serve.http"):
            raise ModuleNotFoundError("No module named 'starlette'", name="starlette")
        return imported(name, *more, **named)

    monkeypatch.setattr(builtins, "__import__", missing)
    result = CliRunner().invoke(app, ["serve", checkpoint])
    assert (result.exit_code, "MP730" in result.output, "starlette" in result.output) == (1, True, True)
