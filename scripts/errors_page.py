"""Writes docs/ERRORS.md: every code with its meaning, an example and the fix.

The truth is in three places: the calls that raise errors, the golden files of programs that are refused, and
scripts/errors.toml, which says in general words what several calls of one code have in common. Run it with
`make docs`; a tidy test compares the page with what this would write.
"""

from __future__ import annotations

import ast
import re
import sys
import textwrap
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "ERRORS.md"
WORDS = ROOT / "scripts" / "errors.toml"
GOLDEN = ROOT / "tests" / "golden" / "errors"

CODE = re.compile(r"MP\d{3}")
WIDTH = 120

FAMILIES = (
    ("MP1", "the program", "ProgramError"),
    ("MP2", "state, keys and values", "StateError"),
    ("MP3", "files of a checkpoint", "StorageError"),
    ("MP4", "epochs and their order", "EpochError"),
    ("MP5", "feeds and sinks", "FeedError"),
    ("MP6", "rows and windows", "RowError"),
    ("MP7", "set-up and command line", "SetupError"),
    ("MP8", "edge, loops, graphs", "ReadError"),
)

ALSO = {
    "MP6": ("WindowError", "ConnectError", "ElasticError"),
    "MP8": ("MetricsError", "ConnectorError", "LoopError", "ServeError"),
}
"""Classes that share the codes of a family."""

INTRODUCTIONS = {
    "MP1": (
        "Found when the class is defined, or when it is compiled (`on`, `explain`, `millpond check`). Nothing has run\n"
        "yet. [LIMITATIONS.md](LIMITATIONS.md) shows the common cases as code, with the fix beside each."
    ),
    "MP3": "Nothing that was committed is changed by any of these.",
    "MP4": (
        "A batch that does not follow the last committed one is never skipped and never applied twice. Where a\n"
        "fix says *adopt*, `job.start(adopt=True)` accepts it as new data; read the hint of the error first."
    ),
    "MP5": "Found before a query starts.",
    "MP8": (
        "Nothing of a checkpoint is changed by any of these. [STATE.md](STATE.md) tells what can be read, and how;\n"
        "[LOOPS.md](LOOPS.md) and [GRAPHS.md](GRAPHS.md) tell how loops and graphs are described (MP85x, MP86x);\n"
        "[SERVING.md](SERVING.md) tells what followers answer (MP879 to MP899)."
    ),
    "MP6": (
        "Nothing of the epoch is committed. MP61x and MP62x are about windows and aggregates, mostly found when they\n"
        "are described; [WINDOWS.md](WINDOWS.md) shows how."
    ),
}

HEAD = """\
# Errors

<!-- Made by scripts/errors_page.py (make docs); change the code, the golden files or scripts/errors.toml instead. -->

Every error has a code, a summary, what was expected, what was found, and a hint. Errors of programs show your source
line with a caret. The code never changes its meaning; the words may.

All errors derive from `MillpondError`. `error.code` is the code. `millpond check` shows all errors of a program at
once.
"""

# What a call means by position, for those that are not defined in the module that calls them.
PARAMETERS = {
    "refuse": ("code", "summary", "source", "node"),
    "bar": ("bars", "code", "summary", "source", "node"),
    "Error": ("code", "summary"),
}


@dataclass
class Code:
    """What is known of one code."""

    code: str
    families: set[str] = field(default_factory=set)
    summaries: list[str] = field(default_factory=list)
    expected: list[str] = field(default_factory=list)
    hints: list[str] = field(default_factory=list)
    meaning: str = ""
    fix: str = ""
    example: tuple[str, str] | None = None


def main() -> int:
    """Write the page, or say what keeps it from being whole."""
    codes = collect()
    problems = list(find_problems(codes))
    for problem in problems:
        print(problem, file=sys.stderr)
    PAGE.write_text(render(codes), encoding="utf-8")
    return 1 if problems else 0


def collect(root: Path = ROOT) -> dict[str, Code]:
    """Gather what the code, the golden files and the words say of every code."""
    codes: dict[str, Code] = {}
    for file in sorted((root / "millpond").rglob("*.py")):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and CODE.fullmatch(node.value):
                codes.setdefault(node.value, Code(node.value))
        for call, parts in _raised(tree):
            found = codes[parts["code"][0]]
            found.families.add(call)
            for name, into in (("summary", found.summaries), ("expected", found.expected), ("hint", found.hints)):
                into += [text for text in parts.get(name, []) if text not in into]
    words = tomllib.loads(WORDS.read_text(encoding="utf-8"))
    for code in codes.values():
        own = words.get(code.code, {})
        code.meaning = own.get("meaning") or (code.summaries[0] if len(code.summaries) == 1 else "")
        expected = [f"it expects {text}" for text in code.expected[:1]]
        code.fix = own.get("fix") or "; or ".join(code.hints or expected)
    for case in sorted(GOLDEN.glob("*.txt"), reverse=True):
        name = case.stem.partition("_")[0]
        if name in codes:
            parts = re.split(r"^== (\w+)\n", case.read_text(encoding="utf-8"), flags=re.MULTILINE)
            shown = dict(zip(parts[1::2], parts[2::2], strict=True))
            codes[name].example = shown["program"].strip("\n"), shown["error"].strip("\n")
    return dict(sorted(codes.items()))


def find_problems(codes: dict[str, Code]) -> Iterator[str]:
    """What is wrong with the codes: more than one meaning, no fix, words for a code that is not used."""
    names = {name for _, _, name in FAMILIES}.union(*ALSO.values())
    for code in codes.values():
        kinds = code.families & names
        if len(kinds) > 1:
            yield f"{code.code} is raised as {' and '.join(sorted(kinds))}: a code has one meaning"
        if not code.meaning:
            told = "; ".join(code.summaries) or "no call that could be read"
            yield f"{code.code} has no single meaning ({told}): give it one in scripts/errors.toml"
        if not code.fix:
            yield f"{code.code} says nowhere what to do: give it a hint, or a fix in scripts/errors.toml"
    meanings: dict[str, str] = {}
    for code in codes.values():
        other = meanings.setdefault(code.meaning, code.code)
        if code.meaning and other != code.code:
            yield f"{other} and {code.code} mean the same: {code.meaning}"
    for name in sorted(tomllib.loads(WORDS.read_text(encoding="utf-8")).keys() - codes.keys()):
        yield f"scripts/errors.toml speaks of {name}, which is not used"


def _raised(tree: ast.Module) -> Iterator[tuple[str, dict[str, list[str]]]]:
    """Every call that is given a code: what is called, and its texts by parameter."""
    own = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    known = _constants(tree)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name | ast.Attribute):
            continue
        name = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
        if name in own:
            parameters = tuple(arg.arg for arg in own[name].args.args if arg.arg != "self")
        else:
            parameters = PARAMETERS.get(name) or (PARAMETERS["Error"] if name.endswith("Error") else ())
        parts = {key: _texts(value, known) for key, value in zip(parameters, node.args, strict=False)}
        parts |= {word.arg: _texts(word.value, known) for word in node.keywords if word.arg}
        if len(parts.get("code", [])) == 1 and CODE.fullmatch(parts["code"][0]):
            yield name, parts


def _constants(tree: ast.Module) -> dict[str, str]:
    """The texts that a module gives names to."""
    found: dict[str, str] = {}
    for node in tree.body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        value = getattr(node, "value", None)
        if isinstance(target, ast.Name) and isinstance(value, ast.Constant) and isinstance(value.value, str):
            found[target.id] = value.value
    return found


def _texts(node: ast.expr, known: dict[str, str]) -> list[str]:
    """The texts that an expression may give; what is only known at run time is an ellipsis."""
    match node:
        case ast.Constant(value=str(text)):
            return [text]
        case ast.Name(id=name) if name in known:
            return [known[name]]
        case ast.JoinedStr(values=values):
            return ["".join(str(v.value) if isinstance(v, ast.Constant) else "…" for v in values)]
        case ast.IfExp(body=body, orelse=orelse):
            return _texts(body, known) + _texts(orelse, known)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            ends = _texts(right, known) or ["…"]
            return [one + other for one in _texts(left, known) or ["…"] for other in ends]
    return []


def render(codes: dict[str, Code]) -> str:
    """The page as text."""
    return "\n".join(_lines(codes)).rstrip("\n") + "\n"


def _lines(codes: dict[str, Code]) -> Iterator[str]:
    yield HEAD
    yield "| family | class | codes |\n|---|---|---|"
    for prefix, title, kind in FAMILIES:
        kinds = ", ".join(f"`{name}`" for name in (kind, *ALSO.get(prefix, ())))
        yield f"| [{title}](#{_anchor(prefix, title)}) | {kinds} | {prefix}xx |"
    for prefix, title, _ in FAMILIES:
        inside = [code for code in codes.values() if code.code.startswith(prefix)]
        yield f"\n## {prefix}xx: {title}\n"
        if prefix in INTRODUCTIONS:
            yield INTRODUCTIONS[prefix] + "\n"
        yield "| code | meaning |\n|---|---|"
        yield from (f"| [{c.code}](#{c.code.lower()}) | {_cell(c.meaning)} |" for c in inside)
        for code in inside:
            yield from _entry(code)


def _entry(code: Code) -> Iterator[str]:
    yield f"\n### {code.code}\n"
    yield _wrapped(f"{code.meaning[:1].upper()}{code.meaning[1:]}. **Fix:** {code.fix.rstrip('.')}.") + "\n"
    if code.example:
        program, error = code.example
        error = "\n".join(_wrapped(line, 12) if len(line) > WIDTH else line for line in error.splitlines())
        yield f"```python\n{program}\n```\n\n```\n{error}\n```"
        return
    yield "```"
    for summary in code.summaries or [code.meaning]:
        yield f"{code.code} {summary}"
    yield from (_wrapped(f"  expected  {text}", 12) for text in code.expected[:1])
    yield from (_wrapped(f"  next      {text}", 12) for text in code.hints[:1])
    yield "```"


def _wrapped(text: str, indent: int = 0) -> str:
    """Return a text in lines that fit the page; words, addresses among them, stay whole."""
    return textwrap.fill(text, WIDTH, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False)


def _anchor(prefix: str, title: str) -> str:
    return re.sub(r"[^\w\- ]", "", f"{prefix}xx: {title}".lower()).replace(" ", "-")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    raise SystemExit(main())
