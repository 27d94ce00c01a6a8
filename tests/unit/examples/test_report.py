from __future__ import annotations

from html.parser import HTMLParser

from examples.films import make_evening
from examples.recommender import Recommender, learning, plain_run, tell
from examples.report import EpochLine, Share, report_page


class Reader(HTMLParser):
    """What a page says, and whether its elements are closed in their order."""

    def __init__(self):
        super().__init__()
        self.open, self.said, self.widths = [], [], []

    def handle_starttag(self, tag, attrs):
        if tag not in {"meta", "br"}:
            self.open.append(tag)
        self.widths += [value for name, value in attrs if name == "style"]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.said.append(data)


def read(page):
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert reader.open == []
    return reader


def test_a_page_tells_how_it_learns_what_it_answers_and_how_fast():
    evening = make_evening(9, members=60, ratings=1200, requests=100, finale=3)
    program, answers = plain_run(evening)
    told = [tell(program, evening.members[number], answers[number - 3][1]) for number in range(3)]
    epochs = [EpochLine(1, 650, 50, 0.5), EpochLine(2, 650, 50, 0.25)]
    page = report_page("1,300 rows", epochs, learning(evening, answers), told, Recommender.explain(format="svg"))
    said = read(page).said
    assert [one.reasons[0].title in said for one in told] == [True] * 3
    assert {"1,300 rows", "last quarter", "drawn blindly", "1,300", "2,600"} <= set(said)


def test_what_comes_from_outside_is_text_on_the_page():
    page = report_page("<b>fast</b>", [], [Share("<i>all</i>", 0.5), Share("none", None)], [], "")
    reader = read(page)
    assert "<b>fast</b>" in reader.said
    assert "<i>all</i>" in reader.said
    assert reader.widths == ["width: 10.00rem", "width: 0.00rem"]


def test_an_epoch_that_took_no_time_has_no_rate():
    assert EpochLine(1, 5, 0, 0.0).rate == 0
