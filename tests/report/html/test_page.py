import json
import re
import shutil
import subprocess
from dataclasses import asdict, replace
from html.parser import HTMLParser

import pytest

from recbench.campaign.folder import Campaign
from recbench.report.html.charts import Axis, heat, lines
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


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("chromium") is None, reason="chromium is not installed")
def test_a_browser_opens_it_from_a_file_without_complaint(campaign, tmp_path):
    path = tmp_path / "report.html"
    click = "<script>document.querySelectorAll('th button')[2].click()</script></body>"
    path.write_text(page(campaign, "ndcg@20").replace("</body>", click))
    done = subprocess.run(
        ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
         f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", path.as_uri()],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert "CONSOLE" not in done.stderr, done.stderr
    assert 'aria-sort="ascending"' in done.stdout
    assert done.stdout.count("<svg") == page(campaign, "ndcg@20").count("<svg")
