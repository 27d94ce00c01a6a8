"""Builds the site of the documentation into a folder: `make docs`.

Pages come from docs/, the README, the changelog and the docstrings of the public names. Links to files of the
repository that are no pages stay as text: a site has no source tree. What links nowhere stops the build.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import millpond

ROOT = Path(__file__).parents[1]

OTHER = {"README.md": "index.md", "CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}
"""Pages of the repository that are none of docs/, and how the site calls them."""

LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)

CONTAINERS = "Map Counter Set Value List Vector Matrix"

REFERENCE = {
    "programs": (
        "Programs",
        "Program entry Partitioned Partial each merged on_timer on_window EventTime Aborted",
        ["millpond.program.merges"],
    ),
    "jobs": (
        "Jobs",
        "Durability BoundedLoss Keep Tuning local_session MillpondError",
        [
            "millpond.spark.job.Job",
            "millpond.spark.reporting.reports.EpochReport",
            "millpond.spark.reporting.reports.RunReport",
        ],
    ),
    "state": (
        "State, sources and sinks",
        f"{CONTAINERS} open follow read_state read_changes fork parquet memory console foreach_epoch",
        [
            "millpond.sources.kafka.kafka",
            "millpond.sinks.kafka.sink.kafka",
            "millpond.sinks.tables.delta.delta",
            "millpond.sinks.tables.iceberg.iceberg",
            "millpond.sinks.tables.jdbc.jdbc",
            "millpond.front.opened.OpenCheckpoint",
            "millpond.front.tables.StateTable",
            "millpond.sinks.protocol",
        ],
    ),
    "windows": ("Windows and graphs", "windows graph", ["millpond.windowing"]),
    "testing": ("Testing", "", ["millpond.testing"]),
}
"""Pages of the reference: public names of the package, and what else is shown there."""

STYLE = """\
.md-typeset table:not([class]) { display: block; overflow-x: auto; max-width: 100%; }
.md-typeset code { overflow-wrap: anywhere; }
.md-typeset img { max-width: 100%; }
"""


def main() -> None:
    """Put the pages together and build."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("site", type=Path, nargs="?", default=ROOT / "build" / "site")
    site = parser.parse_args().site
    site = site.resolve()
    pages = site.with_name(f"{site.name}-pages")
    put_pages(pages)
    settings = pages.with_suffix(".yml")
    settings.write_text(f"INHERIT: {ROOT / 'mkdocs.yml'}\ndocs_dir: {pages}\nsite_dir: {site}\n", encoding="utf-8")
    words = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--config-file", str(settings)]
    # Its notice of another project's plans is nobody's business here.
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(words, cwd=ROOT, check=False, env=environment)  # noqa: S603 - words of our own
    if done.returncode:
        sys.exit(done.returncode)
    print(f"site: {len(list(site.rglob('*.html')))} pages in {site.name}")


def put_pages(folder: Path) -> None:
    """Write the pages of the site, with links as they are there."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "reference").mkdir(parents=True)
    shutil.copytree(ROOT / "docs" / "pictures", folder / "pictures")
    for source in (*sorted((ROOT / "docs").glob("*.md")), *(ROOT / name for name in OTHER)):
        name = OTHER.get(source.name, source.name)
        (folder / name).write_text(with_links(source.read_text(encoding="utf-8"), source), encoding="utf-8")
    for name, (title, public, others) in REFERENCE.items():
        parts = [f"::: {home_of(one)}" for one in public.split()] + [f"::: {one}" for one in others]
        (folder / "reference" / f"{name}.md").write_text("\n\n".join([f"# {title}", *parts, ""]), encoding="utf-8")
    (folder / "site.css").write_text(STYLE, encoding="utf-8")


def home_of(name: str) -> str:
    """Return where a public name is defined, which is where its docstring is read."""
    found = getattr(millpond, name)
    return f"{found.__module__}.{found.__qualname__}"


def with_links(text: str, source: Path) -> str:
    """Return a page with links to pages of the site; what is none of them stays as text. Code stays as it is."""
    parts, at = [], 0
    for block in FENCE.finditer(text):
        parts += [LINK.sub(lambda link: _link(link, source), text[at : block.start()]), block[0]]
        at = block.end()
    return "".join([*parts, LINK.sub(lambda link: _link(link, source), text[at:])])


def _link(link: re.Match[str], source: Path) -> str:
    image, shown, target = link.groups()
    path, _, anchor = target.partition("#")
    if "://" in target or not path:
        return link[0]
    file = (source.parent / path).resolve()
    behind = f"#{anchor}" if anchor else ""
    if file.parent == ROOT / "docs" / "pictures":
        return f"{image}[{shown}](pictures/{file.name})"
    if file.suffix == ".md" and file.parent in (ROOT, ROOT / "docs"):
        return f"{image}[{shown}]({OTHER.get(file.name, file.name)}{behind})"
    return shown


if __name__ == "__main__":
    main()
