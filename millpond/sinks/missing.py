"""Clients of other systems, which are installed by an extra of their own."""

from __future__ import annotations

import importlib
from types import ModuleType

from millpond.errors import SinkError


def client(module: str, extra: str) -> ModuleType:
    """Return a client library; MP802 if its extra is not installed.

    >>> client("json", "kafka").__name__
    'json'
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise SinkError(
            "MP802",
            f"the package that this sink needs is missing: {module.partition('.')[0]}",
            expected=f"pip install 'millpond[{extra}]', in the driver's environment and the workers'",
            found=str(error),
        ) from error
