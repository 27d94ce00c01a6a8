"""Where processes listen: the addresses of their open ports (S7)."""

from __future__ import annotations

from collections.abc import Iterable

import psutil

LOOPBACK = {"127.0.0.1", "::1"}


def below(pid: int) -> list[psutil.Process]:
    """A process, and all that it started; nothing if it is gone."""
    try:
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def addresses(processes: Iterable[psutil.Process]) -> set[str]:
    """The addresses on which processes listen; those that end meanwhile have none."""
    found = set()
    for process in processes:
        try:
            connections = process.net_connections("inet")
        except psutil.NoSuchProcess:
            continue
        listens = (one for one in connections if one.status == psutil.CONN_LISTEN)
        found |= {one.laddr.ip.removeprefix("::ffff:") for one in listens}
    return found
