"""The page as its structure says, and as a browser shows it.

The browser is the one that scripts/browser.sh puts into the environment, or one of the machine; without any, the tests
of structure stand alone.
"""

from __future__ import annotations

import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from millpond.compiler.explain import explain
from millpond.graph.render.page import Listing, graph_page
from millpond.graph.render.svg import graph_svg
from tests.unit.graph.browser import browsing, find_browser
from tests.unit.graph.graphs import LOOPING, PARTED
from tests.unit.graph.market import Market

VOID = {"meta", "br", "hr", "img", "input", "link"}


class Parts(HTMLParser):
    """Every element of a page by its id, and whether all that was opened was closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.by_id: dict[str, dict[str, str]] = {}
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        found = {key: value or "" for key, value in attrs}
        self.tags.append((tag, found))
        if tag not in VOID:
            self.open.append(tag)
        if "id" in found:
            assert found["id"] not in self.by_id, f"{found['id']} is there twice"
            self.by_id[found["id"]] = found

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def page_of(graph) -> str:
    lines = tuple(f"<line {number}> & more" for number in range(1, 15))
    places = {task.name: [("shop/a.py", line) for line in task.lines] for task in graph.tasks}
    return graph_page(graph, [Listing("shop/a.py", 1, lines)], places, hints={"buy": ["move line <3>"]})


PAGES = {"Parted": page_of(PARTED), "Looping": page_of(LOOPING), "Market": explain(Market, "html")}


@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
def test_a_page_is_well_formed_and_lights_up_only_what_is_there(page):
    parts = Parts(page)
    assert parts.open == []
    for _, attributes in parts.tags:
        if "data-on" in attributes:
            assert attributes["data-tell"]
            assert [name for name in attributes["data-on"].split() if name not in parts.by_id] == []


@pytest.mark.parametrize("page", [*PAGES.values(), graph_svg(PARTED), explain(Market, "svg")])
def test_a_page_needs_nothing_but_itself(page):
    tags = Parts(page).tags
    assert not {tag for tag, _ in tags} & {"link", "img", "iframe", "object", "embed", "image", "use", "base"}
    assert [a for _, a in tags if a.keys() & {"src", "href", "srcset", "action", "xlink:href"}] == []
    named = set(re.findall(r"\w+://[^\"'\s)]+", page)) - {"http://www.w3.org/2000/svg"}
    assert named == set()
    assert set(re.findall(r"url\(([^)]*)\)", page)) <= {"#arrow", "#arrow-fan", "#arrow-link", "#arrow-lit"}
    assert "@import" not in page


def test_a_task_lights_its_lines_and_a_line_its_tasks():
    parts = Parts(PAGES["Market"]).by_id
    lines = [name for name in parts["task-order.1"]["data-on"].split() if name.startswith("line-")]
    assert len(lines) == 2
    assert all("task-order.1" in parts[line]["data-on"].split() for line in lines)


def test_an_edge_says_what_it_carries_how_and_why():
    parts = Parts(PAGES["Parted"]).by_id
    assert parts["edge-1"]["data-tell"] == (
        "buy.0 to buy.1: by key cart\ncarries cart, day\ncut because self.carts is under another key"
    )
    looping = Parts(PAGES["Looping"]).by_id
    assert "one message for each turn" in next(p["data-tell"] for p in looping.values() if "fan" in p.get("class", ""))


def test_source_and_hints_are_text_not_markup():
    assert "&lt;line 1&gt; &amp; more" in PAGES["Parted"]
    assert "hint: move line &lt;3&gt;" in PAGES["Parted"]
    assert "<line" not in PAGES["Parted"]


def test_a_picture_is_xml_with_tooltips():
    root = ElementTree.fromstring(graph_svg(LOOPING))
    titles = [title.text for title in root.iter("{http://www.w3.org/2000/svg}title")]
    assert any("cut because the loop goes on" in title for title in titles)
    assert len(titles) == len(LOOPING.tasks) + len(LOOPING.states) + len(LOOPING.edges)


@pytest.fixture(scope="module")
def browser():
    found = find_browser()
    if found is None:
        pytest.skip("no Chromium: run scripts/browser.sh")
    with browsing(found) as page:
        yield page


@pytest.fixture
def market(browser, tmp_path):
    file = tmp_path / "market.html"
    file.write_text(PAGES["Market"], encoding="utf-8")
    browser.open(file, 1500, 850)
    return browser


def text_of(page, ids: set[str]) -> list[str]:
    lines = sorted((name for name in ids if name.startswith("line-")), key=lambda name: int(name.split("-")[-1]))
    return [page.evaluate(f"document.getElementById('{name}').lastChild.textContent.trim()") for name in lines]


def test_pointing_at_a_task_lights_its_lines(market):
    market.hover(r"#task-order\.1 rect")
    assert text_of(market, market.lit()) == [
        "price = self.offers.get(item, 0.0) * (1 + rank / 100)",
        "self.stock[item] -= 1",
    ]
    assert {"task-order.1", "state-offers", "state-stock"} <= market.lit()
    assert market.told().startswith("task order.1, step 1")


def test_pointing_at_a_line_lights_its_task(market):
    line = market.evaluate("document.querySelector('.line[data-on*=\"task-trend.2\"]').id")
    market.hover(f"#{line}")
    assert {"task-trend.2", "task-trend.3", line} == market.lit()


def test_pointing_at_an_edge_tells_what_why_and_how(market):
    market.hover("#edge-2 .reach")
    assert market.told() == (
        "order.1 to order.2: by key buyer\ncarries buyer, day, price\ncut because self.buyers is under another key"
    )
    assert {"edge-2", "edge-2-label", "task-order.1", "task-order.2"} <= market.lit()


def test_a_click_keeps_it_until_escape(market):
    market.click(r"#task-offer\.0 rect")
    market.hover(r"#task-order\.1 rect")
    assert "task-offer.0" in market.lit()
    assert "task-order.1" not in market.lit()
    market.press_escape()
    assert market.lit() == set()
    assert market.told().startswith("Point at")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_text_stands_out_from_its_ground(market, dark):
    if dark:
        market.dark()

    def luminance(colour: str) -> float:
        parts = [int(value) / 255 for value in re.findall(r"\d+", colour)[:3]]
        linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    def style(selector: str, name: str) -> str:
        return market.evaluate(f"getComputedStyle(document.querySelector('{selector}')).{name}")

    pairs = [
        (".task .name", ".task rect"),
        (".task .soft", ".task rect"),
        (".label text", ".lane"),
        (".state .soft", ".state path"),
    ]
    for text, ground in pairs:
        light, deep = sorted((luminance(style(text, "fill")), luminance(style(ground, "fill"))), reverse=True)
        assert (light + 0.05) / (deep + 0.05) >= 4.5, (text, ground)


def test_the_whole_graph_of_fifteen_tasks_fits_the_width_of_a_screen(market):
    width, seen = market.evaluate("[document.querySelector('svg').getBoundingClientRect().width, drawing.clientWidth]")
    assert width <= seen
    assert market.evaluate("parseFloat(getComputedStyle(document.querySelector('.task .name')).fontSize)") >= 12
    natural = market.evaluate("document.querySelector('svg').viewBox.baseVal.width")
    assert width / natural >= 0.7
