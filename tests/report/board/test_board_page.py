import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from boards import RESULT, STRONG, row, source
from recbench.report.board.page import Board, page
from recbench.report.board.sources import Source
from toys import trial

HOSTILE = "</script><script>alert(1)</script>\"'><img src=x onerror=alert(1)>"
VOID = {"meta", "input", "br"}


class Page(HTMLParser):
    """What of a page is tested: its tags, where its links lead and what they say."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[tuple[str, dict]] = []
        self.tags: list[tuple[str, dict]] = []
        self.texts: list[tuple[list[str], dict, str]] = []
        self.feed(text)
        assert self.open == [], "tags match up"

    @property
    def ids(self):
        return [attributes["id"] for _, attributes in self.tags if "id" in attributes]

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(self.tags[-1])

    def handle_endtag(self, tag):
        assert self.open.pop()[0] == tag

    def handle_data(self, data):
        if self.open:
            self.texts.append(([tag for tag, _ in self.open], self.open[-1][1], data))

    def links(self, text):
        return [
            about["href"][1:]
            for tags, about, data in self.texts
            if data == text and tags[-1] == "a"
        ]


def board(*sources, left_out=(), published=()):
    return Page(page(Board(sources, left_out, published)))


def costly(number, value, seconds, **changes):
    known = {"part": "test", "split": STRONG, "fit_seconds": seconds, "peak_bytes": 10**9}
    return trial(number, value, **known, parameters={"l2": number}, **changes)


@pytest.fixture
def made() -> Page:
    one = source(
        costly(1, 0.5, 2.0), replace(costly(2, 0.4, 4.0), model="dlae", text="dlae[l2=2]"),
        replace(costly(3, 0.6, 8.0), model="ials", text="ials[l2=3]"), name="campaign-1",
    )  # fmt: skip
    return board(one, published=[row(printed="0.510"), row(our_split="weak", printed="0.999")])


def test_every_link_leads_somewhere_on_the_page_and_every_address_is_there_once(made):
    assert len(made.ids) == len(set(made.ids))
    hrefs = [about["href"] for tag, about in made.tags if tag == "a"]
    assert len(hrefs) > 20
    assert {href[0] for href in hrefs} == {"#"}
    assert {href[1:] for href in hrefs} <= set(made.ids)


def test_nothing_is_loaded_from_anywhere(made):
    loading = {"src", "srcset", "data", "poster", "action", "formaction"}
    assert not [about for _, about in made.tags if loading & set(about)]
    assert not {"link", "iframe", "object", "img", "base"} & {tag for tag, _ in made.tags}
    styles = "".join(data for tags, _, data in made.texts if tags[-1] in ("style", "script"))
    assert not re.search(r"@import|url\(|https?:|fetch\(|innerHTML", styles)


def test_numbers_lead_to_trials_with_everything_that_is_known(made):
    for text in ("0.5000", "2.00", "1.00"):
        assert made.links(text)
    (trial_id,) = {*made.links("0.5000")}
    assert trial_id in made.ids
    panel = made.tags.index(next(t for t in made.tags if t[1].get("id") == trial_id))
    assert made.tags[panel][1]["class"] == "trial"
    words = " ".join(data for _, _, data in made.texts)
    assert "l2 1" in words
    assert "commit unknown" in words


def test_printed_numbers_stand_beside_ours_and_the_others_say_why_not(made):
    (place,) = {*made.links("0.510")}
    assert place.endswith("-p0")
    words = [data for _, _, data in made.texts]
    assert "-0.0100" in words
    assert "another split: weak" in words
    assert not made.links("0.999")


def test_the_front_leaves_out_what_is_slower_and_worse(made):
    (said,) = [
        i for i, (_, _, data) in enumerate(made.texts) if data.startswith("Nothing here is both")
    ]
    sentence = "".join(data for _, _, data in made.texts[said : said + 6])
    assert "ease (2.00 s, 0.5000)" in sentence.replace("] (", " (").replace("[l2=1", "")
    assert "ials" in sentence
    assert "dlae" not in sentence
    assert [about for tag, about in made.tags if about.get("class") == "front"]


def test_what_is_far_off_is_told_and_not_drawn():
    low = replace(costly(9, 0.1, 0.01), model="popularity", text="popularity")
    made = board(source(costly(1, 0.5, 2.0), replace(costly(2, 0.4, 4.0), model="dlae"), low))
    words = "".join(data for _, _, data in made.texts)
    assert "Not drawn, as they are less than half as good as the best: popularity" in words
    drawn = [about for tag, about in made.tags if tag == "circle" and about["r"] == "4.5"]
    assert sum("cx" in about and about["cx"] != "6" for about in drawn) == 2


def test_seconds_of_several_machines_are_called_so():
    first, second = (source(costly(n, 0.5, 2.0 * n), name=f"c{n}") for n in (1, 2))
    machine = {**second.runs[0]["environment"], "cpu": "Another"}
    other = Source("c2", second.rows, [{**second.runs[0], "environment": machine}])
    words = "".join(data for _, _, data in board(first, other).texts)
    assert "Seconds are of different machines" in words


def test_without_seconds_it_says_so_and_which_run_it_was_is_not_guessed():
    unknown = source(costly(1, 0.5, 0.0), name="old")
    twice = Source("old", unknown.rows, [*unknown.runs, {**unknown.runs[0], "id": "b"}])
    words = "".join(data for _, _, data in board(twice).texts)
    assert "Seconds are not known in old: no costs.csv" in words
    assert "By one of the 2 runs of old" in words


def test_a_cluster_counts_as_the_machines_that_it_had():
    fitted = costly(1, 0.5, 2.0), replace(costly(2, 0.4, 4.0), model="dlae")
    blas = [{"internal_api": "mkl", "version": "7"}]
    crew = [
        {"cpu": cpu, "cores": 8, "memory_bytes": 1, "platform": "", "blas": blas,
         "workers": ["tcp://a", "tcp://b"]}
        for cpu in ("one", "another")
    ]  # fmt: skip
    made = source(*fitted)
    there = Source(made.name, made.rows, [{**made.runs[0], "crew": crew}])
    words = "".join(data for _, _, data in board(there).texts)
    assert "Seconds are of different machines" in words
    assert "2 workers: one, 8 cores, mkl 7" in words


def test_text_from_results_cannot_become_markup():
    run = source().runs[0]
    data = {**run["dataset"], "name": HOSTILE, "provenance": {HOSTILE: HOSTILE}}
    machine = {**run["environment"], "cpu": HOSTILE, "packages": {HOSTILE: HOSTILE}}
    crew = {**machine, "workers": [HOSTILE]}
    hostile = {
        **run, "crew": [crew], "command": [HOSTILE], "written": HOSTILE, "split": HOSTILE,
        "select": HOSTILE, "status": HOSTILE, "dataset": data, "environment": machine,
    }  # fmt: skip
    bad = replace(
        RESULT, trial=HOSTILE, dataset=HOSTILE, fingerprint=HOSTILE, split=HOSTILE, model=HOSTILE,
        text=HOSTILE, parameters={HOSTILE: HOSTILE}, dtype=HOSTILE, reason=HOSTILE, run=HOSTILE,
        metrics={HOSTILE: 0.5}, facts={HOSTILE: 1}, fit_seconds=1.0,
    )  # fmt: skip
    other = replace(bad, model=HOSTILE + "2", text=HOSTILE + "2", trial="x", fit_seconds=2.0)
    text = page(Board(
        [Source(HOSTILE, [bad, other], [hostile], [HOSTILE])], [HOSTILE],
        [row(our_dataset=HOSTILE, our_split=HOSTILE, our_model=HOSTILE, metric=HOSTILE,
             paper=HOSTILE, printed=HOSTILE)],
    ))  # fmt: skip
    made = Page(text)
    assert "<img" not in text
    assert [tag for tag, _ in made.tags].count("script") == 1
    assert not [about for _, about in made.tags if any(name.startswith("on") for name in about)]
    assert {href["href"][1:] for tag, href in made.tags if tag == "a"} <= set(made.ids)


def test_a_folder_without_a_manifest_is_shown_with_what_is_known():
    made = board(Source("bare", [costly(1, 0.5, 1.0)], []), left_out=["broken: it is damaged"])
    words = " ".join(data for _, _, data in made.texts)
    assert "There is no manifest" in words
    assert "broken: it is damaged" in words
