"""Azure's storage emulator, if `scripts/azurite.sh` has installed it, with one container in it."""

from __future__ import annotations

import base64
import email.utils
import hashlib
import hmac
import subprocess
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path

from tests.contract.servers import free_port

AZURITE = Path(__file__).parents[2] / ".venv" / "azurite" / "node_modules" / ".bin" / "azurite-blob"
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""The emulator's own account: its key is the same everywhere, and no secret."""
VERSION = "2021-08-06"
READY_S = 600.0


@contextmanager
def azure_server():
    port = free_port()
    place = ("--blobHost", "127.0.0.1", "--blobPort", str(port), "--inMemoryPersistence")
    with subprocess.Popen([AZURITE, *place, "--silent", "--skipApiVersionCheck"], stdout=subprocess.DEVNULL) as process:
        try:
            endpoint = f"http://127.0.0.1:{port}/{ACCOUNT}"
            until = time.monotonic() + READY_S
            while not make_container(endpoint):
                assert time.monotonic() < until, "the emulator does not answer"
                time.sleep(0.1)
            yield endpoint
        finally:
            process.terminate()
            process.wait()


def make_container(endpoint):
    """Make the container, signed as Azure asks for; False if nobody answers yet."""
    date = email.utils.formatdate(usegmt=True)
    place = f"/{ACCOUNT}/{ACCOUNT}/container"
    text = f"PUT{chr(10) * 12}x-ms-date:{date}\nx-ms-version:{VERSION}\n{place}\nrestype:container"
    signature = base64.b64encode(hmac.new(base64.b64decode(KEY), text.encode(), hashlib.sha256).digest()).decode()
    headers = {"x-ms-date": date, "x-ms-version": VERSION, "Authorization": f"SharedKey {ACCOUNT}:{signature}"}
    request = urllib.request.Request(f"{endpoint}/container?restype=container", method="PUT", headers=headers)
    try:
        urllib.request.urlopen(request).close()
    except urllib.error.HTTPError:
        raise
    except OSError:
        return False
    return True
