"""`millpond serve`: a checkpoint over HTTP, without Spark."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from millpond.cli.terminal import errors_shown
from millpond.errors import SetupError


def serve(
    checkpoint: Annotated[str, typer.Argument(metavar="CHECKPOINT", help="A folder, or an address as s3://...")],
    program: Annotated[
        str | None, typer.Argument(metavar="[MODULE:CLASS]", help="As in examples.recommender:Recommender.")
    ] = None,
    *,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 for any that is free.")] = 8088,
    host: Annotated[str, typer.Option(help="Where to listen; beyond loopback only with --tokens.")] = "127.0.0.1",
    tokens: Annotated[Path | None, typer.Option(metavar="FILE", help="Who may ask what, as TOML.")] = None,
    allow_host: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="A name by which clients call this server.")
    ] = None,
    certificate: Annotated[Path | None, typer.Option(metavar="FILE", help="For TLS, with --key.")] = None,
    key: Annotated[Path | None, typer.Option(metavar="FILE", help="The key of the certificate.")] = None,
    folder: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Where the copy of the state lies; one for each server.")
    ] = None,
    rate: Annotated[float, typer.Option(min=0, help="Requests a second of one client; 0 for any number.")] = 0,
) -> None:
    """Follow a checkpoint, and answer from it over HTTP until it is told to end.

    With the program, its entry points that change nothing can be asked, and partial state is merged. The job that
    writes the checkpoint runs or does not, and knows nothing of its followers. docs/SERVING.md tells what can be asked.
    """
    with errors_shown():
        try:
            from millpond.serve.http.options import Limits, read_token_file
            from millpond.serve.http.server import Address
            from millpond.serve.http.server import serve as run
        except ModuleNotFoundError as error:
            raise SetupError(
                "MP730",
                "serving needs packages that are not installed",
                expected="starlette, uvicorn and watchfiles",
                found=f"no module `{error.name}`",
                hint='pip install "millpond[serve]"',
            ) from None
        from millpond.cli.explain import load_program
        from millpond.serve.follower import follow

        address = Address(host, port, frozenset(name.lower() for name in allow_host or ()), certificate, key)
        known = () if tokens is None else read_token_file(tokens)
        loaded = None if program is None else cast("Any", load_program(program))
        with follow(checkpoint, loaded, folder=folder) as follower:
            # Told to end, it ends as from the keyboard: the copy is given back.
            signal.signal(signal.SIGTERM, signal.default_int_handler)

            def say(url: str) -> None:
                typer.echo(f"{url} answers from {checkpoint}, at epoch {follower.epoch}; {url}/openapi.json tells what")

            run(follower, checkpoint, address, tokens=known, limits=Limits(rate=rate), ready=say)
