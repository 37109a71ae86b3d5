import json
import re
from dataclasses import asdict, replace
from html.parser import HTMLParser
from itertools import pairwise

import pytest

from recbench.campaign.folder import Campaign
from recbench.report.html.charts import LARGER, LETTER, Axis, heat, lines, pareto
from recbench.report.html.document import MOST_DATA, Figure, charts_of
from recbench.report.html.page import page
from toys import trial

VOID = {"meta"}


class Balanced(HTMLParser):
    """Fails where tags do not match up."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.words = ""
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words += data


@pytest.fixture
def campaign(tmp_path) -> Campaign:
    campaign = Campaign(tmp_path)
    campaign.create()
    for number in (1, 10, 100):
        known = {"parameters": {"l2": float(number)}, "fit_seconds": 1.0}
        campaign.record(trial(number, 0.1 + number / 1000, **known))
        grid = {"parameters": {"l2": float(number), "p": number / 200}, "fit_seconds": 2.0}
        other = trial(number + 1, 0.2, **grid)
        campaign.record(replace(other, model="edlae", text=f"edlae[{number}]"))
    campaign.record(trial(100, 0.25, part="test", parameters={"l2": 100.0}))
    hostile = replace(
        trial(7, 0.0), status="failed", reason="<script>alert(1)</script>", metrics={}
    )
    campaign.record(hostile)
    return campaign


def test_the_page_is_whole_and_needs_no_network(campaign):
    text = page(campaign, "ndcg@20")
    words = Balanced(text).words
    assert not re.search(r"""(src|href)=|https?://|@import|url\(""", text)
    assert "test, 3 users" in words
    assert "Landscapes" in words
    assert "Quality and cost" in words
    assert "0.2500" in words


def test_text_from_elsewhere_cannot_become_markup(campaign):
    text = page(campaign, "ndcg@20")
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert(1)" in text


def test_a_large_campaign_stays_small(tmp_path):
    campaign = Campaign(tmp_path)
    campaign.create()
    for number in range(1000):
        row = trial(number, number / 1000, parameters={"l2": float(number)}, fit_seconds=0.1)
        with campaign.log.open("a") as log:
            log.write(json.dumps(asdict(row)) + "\n")
    assert len(page(campaign, "ndcg@20").encode()) < 1_500_000


@pytest.mark.parametrize(
    ("low", "high", "log"),
    [(0.0, 1.0, False), (0.671, 0.6804, False), (0.01, 5000, True), (3, 9, True), (2, 2, False)],
)
def test_an_axis_has_a_few_round_ticks_inside(low, high, log):
    axis = Axis(low, high, 0, 100, log)
    ticks = axis.ticks()
    assert 1 <= len(ticks) <= 8
    assert all(low - 1e-9 <= tick <= high + 1e-9 for tick in ticks)
    assert all(-1e-6 <= axis.at(tick) <= 100 + 1e-6 for tick in ticks)


def test_charts_of_a_single_value_are_drawn():
    Balanced(str(lines({"a": [(0.0, 0.5, "one")]}, "x", "y", log=True)))
    Balanced(str(heat({(1.0, 2.0): 0.5}, "x", "y", "z")))


def test_what_is_drawn_is_there_as_a_table(campaign):
    text = page(campaign, "ndcg@20")
    figures = [part.split("</details>")[0] for part in text.split("<div class=chart ")[1:]]
    assert figures
    for figure in figures:
        drawn = figure.count("<circle") - figure.count('viewBox="0 0 12 12"')
        marks = drawn or figure.count("<rect")
        assert figure.count("</tr>") == marks + 1, "a line for each mark, and the head"


def test_of_many_points_a_table_has_the_highest():
    points = [(float(i), i / 1000, f"p{i}") for i in range(MOST_DATA + 5)]
    (figure,) = charts_of([Figure("h", "n", lines({"a": points}, "x", "y"))]).split("<details>")[1:]
    assert figure.count("</tr>") == MOST_DATA + 1
    assert f"the highest {MOST_DATA} of {MOST_DATA + 5}" in figure
    assert "<td>p4</td>" not in figure
    assert "<td>p5</td>" in figure


@pytest.mark.parametrize(
    "make",
    [
        lambda: heat({(0.00001 * 3**i, 1.0): float(i) for i in range(19)}, "x", "y", "z").content,
        lambda: lines({"": [(0.35, 0.1, ""), (2.9, 0.2, "")]}, "x", "y", log=True).content,
        lambda: lines({"": [(1e-5, 0.1, ""), (1e9, 0.2, "")]}, "x", "y", log=True).content,
        lambda: lines({"": [(1234.0, 0.1, ""), (1234567.0, 0.2, "")]}, "x", "y").content,
    ],
)
def test_ticks_have_room_also_where_text_is_large(make):
    """At 360 px text is 1.6 times as large, in pixels of the drawing; half the ticks make way."""
    drawn = make()
    ticks = re.findall(r'<text x="([\d.]+)"[^>]*middle"([^>]*)>([\d.e-]+)</text>', drawn)
    for scale, shown in ((1, ticks), (LARGER, [tick for tick in ticks if not tick[1]])):
        ends = [(float(x), len(word) * LETTER * scale / 2) for x, _, word in shown]
        assert len(ends) > 1
        assert all(b - a > u + v for (a, u), (b, v) in pairwise(ends))


def test_the_front_is_what_nothing_beats_in_both():
    points = [(1.0, 0.1, "a"), (2.0, 0.3, "b"), (2.0, 0.2, "c"), (3.0, 0.3, "d"), (4.0, 0.4, "e")]
    assert [point[2] for point in pareto(points)] == ["a", "b", "e"]
    drawn = lines(
        {"s": points}, "x", "y", joined=False, front=True, links={points[1]: "#b"}
    ).content
    assert drawn.count('class="front"') == 1
    assert drawn.count("<a href") == drawn.count('<a href="#b"><circle') == 1
