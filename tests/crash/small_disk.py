"""A disk of a megabyte or two that really fills up, for those who may mount one."""

from __future__ import annotations

import shutil
import subprocess
from contextlib import contextmanager, suppress

import pytest

MIB = 1 << 20
_MOUNT, _UMOUNT = shutil.which("mount"), shutil.which("umount")


@contextmanager
def small_disk(folder, size_bytes):
    """Mount a file system in memory of a fixed size; skips the test where that is not allowed."""
    folder.mkdir(parents=True, exist_ok=True)
    if _MOUNT is None or _UMOUNT is None:
        pytest.skip("no mount command here")
    options = f"size={size_bytes},mode=0700"
    done = subprocess.run(
        [_MOUNT, "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], capture_output=True, check=False
    )
    if done.returncode:
        pytest.skip("only root may mount a small disk")
    try:
        yield folder
    finally:
        # Detached, since a local store may still be open below it.
        subprocess.run([_UMOUNT, "-l", str(folder)], check=True)


def fill(folder, left_bytes=0):
    """Take all room but so much, in a file that can be deleted again."""
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))
    size = ballast.stat().st_size
    with ballast.open("r+b") as file:
        file.truncate(max(0, size - left_bytes))
    return ballast
