"""The page that the recommender leaves: its rate, how it learns, what it answers and why, and its graph."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

STYLE = """
:root { color-scheme: light dark; --paper: #fff; --ink: #1c2430; --soft: #566172; --rule: #d5dbe3; --bar: #2b6cb0; }
@media (prefers-color-scheme: dark) { :root {
  --paper: #14181f; --ink: #e6eaf0; --soft: #a3aebd; --rule: #323c4a; --bar: #63a4e8; } }
body { background: var(--paper); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto;
  max-width: 64rem; padding: 0 1rem; }
h1 { margin-bottom: 0; } h2 { margin: 2rem 0 .5rem; } p, caption { color: var(--soft); text-align: left; }
table { border-collapse: collapse; margin-bottom: 1rem; }
td, th { border-bottom: 1px solid var(--rule); padding: .25rem .9rem .25rem 0; }
th { color: var(--soft); font-weight: 500; text-align: left; } td.number { text-align: right; }
td .bar { background: var(--bar); display: inline-block; height: .8rem; margin-right: .6rem; }
.drawing { overflow-x: auto; }
"""

BAR_REM = 20
"""How long a bar of the whole is."""


@dataclass(frozen=True, slots=True)
class EpochLine:
    """An epoch in figures."""

    number: int
    rows: int
    replies: int
    seconds: float

    @property
    def rate(self) -> int:
        """Rows per second."""
        return round(self.rows / self.seconds) if self.seconds else 0


@dataclass(frozen=True, slots=True)
class Share:
    """How many of the films recommended in a part of the stream were to the user's taste; None if none were."""

    part: str
    in_taste: float | None

    @property
    def text(self) -> str:
        """The same in words."""
        return "no answers yet" if self.in_taste is None else f"{self.in_taste:.0%} of the recommended films"


@dataclass(frozen=True, slots=True)
class Reason:
    """A recommended film, and the film rated by the same members that weighs most in its score."""

    title: str
    genre: str
    score: float
    because_of: str
    members: int

    @property
    def cells(self) -> tuple[str, ...]:
        """The same as columns of a table."""
        return self.title, self.genre, f"{self.score:.1f}", self.because_of, str(self.members)


REASON_COLUMNS = ("recommended", "genre", "score", "rated together with", "members")


@dataclass(frozen=True, slots=True)
class Told:
    """What a member likes, and what was recommended."""

    member: int
    about: str
    reasons: tuple[Reason, ...]


def report_page(
    summary: str, epochs: Sequence[EpochLine], shares: Sequence[Share], told: Sequence[Told], graph_svg: str
) -> str:
    """Make the page, which needs nothing else; `graph_svg` is the drawing of the program's graph."""
    return "\n".join(_lines(summary, epochs, shares, told, graph_svg)) + "\n"


def _lines(
    summary: str, epochs: Sequence[EpochLine], shares: Sequence[Share], told: Sequence[Told], graph_svg: str
) -> Iterator[str]:
    yield '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">'
    yield "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>Recommender</title>\n<style>{STYLE}</style>\n</head>\n<body>"
    yield f"<h1>An online recommender on Spark</h1>\n<p>{escape(summary)}</p>"
    yield "<h2>How it learns</h2>\n<table>"
    for share in shares:
        yield f"<tr><th>{escape(share.part)}</th><td>{_bar(share.in_taste)}{escape(share.text)}</td></tr>"
    yield "</table>\n<h2>What it answers, and why</h2>"
    for one in told:
        yield f"<table>\n<caption>Member {one.member} {escape(one.about)}</caption>"
        yield f"<tr>{''.join(f'<th>{name}</th>' for name in REASON_COLUMNS)}</tr>"
        yield from (f"<tr>{''.join(map(_cell, reason.cells))}</tr>" for reason in one.reasons)
        yield "</table>"
    yield "<h2>Epochs</h2>\n<p>Each is one transaction: state and answers are committed together.</p>\n<table>"
    yield "<tr><th>epoch</th><th>rows</th><th>answers</th><th>seconds</th><th>rows per second</th></tr>"
    for epoch in epochs:
        figures = (
            f"{epoch.number}",
            f"{epoch.rows:,}",
            f"{epoch.replies:,}",
            f"{epoch.seconds:.1f}",
            f"{epoch.rate:,}",
        )
        yield f"<tr>{''.join(map(_cell, figures))}</tr>"
    yield f'</table>\n<h2>Its graph</h2>\n<div class="drawing">{graph_svg}</div>\n</body>\n</html>'


def _bar(share: float | None) -> str:
    return f'<span class="bar" style="width: {BAR_REM * (share or 0):.2f}rem"></span>'


def _cell(text: str) -> str:
    is_number = text.replace(",", "").replace(".", "").isdigit()
    return f'<td class="number">{text}</td>' if is_number else f"<td>{escape(text)}</td>"
