from __future__ import annotations

from itertools import pairwise

import pytest

from millpond.checkpoint.forking import fork
from millpond.checkpoint.records.manifest import Ancestor
from millpond.engine.simulated import Simulated
from millpond.errors import FeedError
from millpond.sinks import Sink, SinkDescription, Token
from tests.programs.keyed import Store, random_rows
from tests.sizes import compile_once

BASE, OTHER, FORK = (f"{digit * 8}-{digit * 4}-4{digit * 3}-8{digit * 3}-{digit * 12}" for digit in "abc")
ROWS = random_rows(Store, 3, 60)


class Watching(Sink):
    """Takes all rows, and remembers what it was told and asked."""

    def __init__(self):
        self.published, self.recovered = [], []

    def describe(self):
        return SinkDescription("a test")

    def publish(self, token, staged):
        self.published.append((token, [file.token for file in staged.files]))

    def recover(self, token, files):
        self.recovered.append((token, list(files)))
        return ()


@pytest.mark.parametrize("lineage", [(), (Ancestor(BASE, 3),), (Ancestor(BASE, 3), Ancestor(OTHER, 12))])
@pytest.mark.parametrize("sink", ["add.replies", "a:b@c+d/e%20 é\n", "replies"])
@pytest.mark.parametrize("file", ["", "0000000007-cccccccc-00-00000-0123456789abcdef.parquet"])
def test_a_token_is_read_from_its_text(lineage, sink, file):
    token = Token(FORK, lineage, sink, 7, file)
    text = str(token)
    assert Token.parse(text) == token
    assert text.isascii()
    assert not set(text) & set(" \n\t/\"'\\")
    assert text.startswith(token.writer + ":")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "millpond:1",
        f"millpond:2:{FORK}::add:0000000007:",
        f"millpond:1:{FORK}::add:7:",
        f"millpond:1:{FORK}::add:seven:",
        f"millpond:1:{FORK}:{BASE}:add:0000000007:",
        f"millpond:1:{FORK}:{BASE}@1@2:add:0000000007:",
        f"millpond:1:{FORK}::add%2:0000000007:",
        f"millpond:1:{FORK}::add:0000000007::",
    ],
)
def test_what_is_no_token_is_refused(text):
    with pytest.raises(FeedError) as caught:
        Token.parse(text)
    assert caught.value.code == "MP530"


def test_tokens_are_ordered_by_epoch_and_so_are_their_texts():
    made = [Token(BASE, (), "add", epoch, file) for epoch in (2, 10, 123_456_789) for file in ("", "a", "b")]
    assert sorted(made, reverse=True) == made[::-1]
    assert sorted(map(str, made)) == [str(token) for token in made]
    assert len({token.writer for token in made}) == 1


def test_a_sink_is_asked_once_at_a_start_and_told_every_epoch_by_its_token(tmp_path):
    sink, compiled = Watching(), compile_once(Store)
    run = Simulated(compiled, tmp_path, 2, sinks={"get": sink})
    ((first, files),) = sink.recovered
    assert (first.sink, first.epoch, first.lineage, files) == ("get", 0, (), [])
    run.epoch(ROWS[:30])
    run.epoch(ROWS[30:])
    assert [token for token, _ in sink.published] == [Token(first.checkpoint, (), "get", epoch) for epoch in (1, 2)]
    assert all(token.of_file(file.file) == file for token, files in sink.published for file in files)
    Simulated(compiled, tmp_path, 2, sinks={"get": sink})
    assert sink.recovered[1:] == sink.published[-1:]
    assert len(sink.published) == 2, "a note says that it is done"


@pytest.mark.parametrize("copy", [False, True])
def test_the_tokens_of_a_fork_tell_where_it_comes_from_also_when_it_is_old(tmp_path, copy):
    sink, compiled = Watching(), compile_once(Store)
    Simulated(compiled, tmp_path / "a", 2, sinks={"get": sink}).epoch(ROWS[:30])
    folders = [tmp_path / name / "checkpoint" for name in "abc"]
    for number, (base, new) in enumerate(pairwise(folders)):
        fork(base, new, copy=copy)
        run = Simulated(compiled, new.parent, 2, sinks={"get": sink}, adopt=True)
        for _ in range(3):
            # So many that the first manifest of the fork is not kept.
            run.epoch(ROWS[30:])
        assert sink.published[-1][0].epoch == 4 + 3 * number
    checkpoints = list(dict.fromkeys(token.checkpoint for token, _ in sink.published))
    lineages = list(dict.fromkeys(token.lineage for token, _ in sink.published))
    parents = (Ancestor(checkpoints[0], 1), Ancestor(checkpoints[1], 4))
    assert lineages == [(), parents[:1], parents]
    assert len({str(token) for token, _ in sink.published}) == len(sink.published) == 7
