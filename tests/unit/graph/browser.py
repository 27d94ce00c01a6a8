"""A real browser for the tests of pages: Chromium, spoken to over two pipes, with nothing in between."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ANSWER_SECONDS_MAX = 600
"""A loaded machine needs some seconds to start a browser."""

FLAGS = (
    "--headless=shell",
    "--no-sandbox",
    "--no-zygote",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-quic",
    "--no-first-run",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)

# The browser hears on 3 and speaks on 4. Both ends are moved out of the way first.
STARTER = """
import os, sys
heard, said = (os.dup(int(end)) for end in sys.argv[1:3])
heard, said = (os.dup2(end, end + 20) for end in (heard, said))
os.dup2(heard, 3)
os.dup2(said, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""


def find_browser() -> Path | None:
    """The browser that scripts/browser.sh installs into the environment, or one that the machine has."""
    own = Path(sys.prefix) / "browser" / "chromium"
    if own.exists():
        return own
    names = ("chromium", "chromium-browser", "google-chrome", "chrome")
    return next((Path(found) for found in map(shutil.which, names) if found), None)


class Page:
    """A page in the browser: look at it, move the pointer, press keys."""

    def __init__(self, command: int, answers: int) -> None:
        self._command = command
        self._answers = answers
        self._buffer = b""
        self._number = 0
        self._session = ""

    def open(self, file: Path, width: int, height: int) -> None:
        """Show a file, and wait until it is there."""
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self._call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self._call("Page.navigate", url=file.absolute().as_uri())
        while self.evaluate("document.readyState + location.protocol") != "completefile:":
            pass

    def resize(self, width: int, height: int) -> None:
        """Show the page on another screen."""
        self._call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def close(self) -> None:
        """Leave the page: a browser that has many open is slow."""
        self._call("Page.close")
        self._session = ""

    def dark(self) -> None:
        """Ask for the dark colours."""
        self._call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])

    def evaluate(self, expression: str):
        """The value of an expression of JavaScript."""
        answer = self._call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def hover(self, selector: str) -> None:
        """Move the pointer to the middle of an element, or to a point on the middle of a path."""
        x, y = self.evaluate(
            f"""(() => {{ const e = document.querySelector({json.dumps(selector)});
            e.scrollIntoView({{block: "nearest", inline: "nearest"}});
            if (e.getPointAtLength) {{ const p = e.getPointAtLength(e.getTotalLength() * 0.5), m = e.getScreenCTM();
              return [p.x * m.a + m.e, p.y * m.d + m.f]; }}
            const r = e.getBoundingClientRect();
            return [r.x + Math.min(r.width / 2, 150), r.y + r.height / 2]; }})()"""
        )
        self._call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def press_escape(self) -> None:
        """Press the Escape key."""
        self._call("Input.dispatchKeyEvent", type="keyDown", key="Escape")

    def click(self, selector: str) -> None:
        """Click the middle of an element."""
        self.hover(selector)
        x, y = self.evaluate(
            f"(() => {{ const r = document.querySelector({json.dumps(selector)}).getBoundingClientRect();"
            "return [r.x + Math.min(r.width / 2, 150), r.y + r.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self._call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def lit(self) -> set[str]:
        """The ids of what is lit up."""
        return set(self.evaluate("[...document.querySelectorAll('.lit')].map(e => e.id)"))

    def told(self) -> str:
        """What the page says about it."""
        return self.evaluate("document.getElementById('tell').textContent")

    def screenshot(self, file: Path) -> None:
        """Save what can be seen."""
        file.write_bytes(base64.b64decode(self._call("Page.captureScreenshot")["data"]))

    def _call(self, method: str, **parameters) -> dict:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._command, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._answer()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]

    def _answer(self) -> dict:
        while b"\0" not in self._buffer:
            # Not select(), which knows the first 1024 files of a process alone.
            waiting = select.poll()
            waiting.register(self._answers, select.POLLIN | select.POLLHUP)
            assert waiting.poll(ANSWER_SECONDS_MAX * 1000), "the browser does not answer"
            read = os.read(self._answers, 1 << 20)
            assert read, "the browser is gone"
            self._buffer += read
        one, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(one)


@contextlib.contextmanager
def browsing(browser: Path) -> Iterator[Page]:
    """Start a browser, and end it."""
    heard, command = os.pipe()
    answers, said = os.pipe()
    libraries = browser.parent / "lib"
    environment = {**os.environ, "LD_LIBRARY_PATH": str(libraries)} if libraries.exists() else None
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        start = [sys.executable, "-c", STARTER, str(heard), str(said)]
        line = [*start, str(browser), *FLAGS, f"--user-data-dir={profile}"]
        process = subprocess.Popen(line, pass_fds=(heard, said), stderr=subprocess.DEVNULL, env=environment)
        try:
            yield Page(command, answers)
        finally:
            process.kill()
            process.wait()
            for end in (heard, command, answers, said):
                os.close(end)
