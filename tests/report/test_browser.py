"""The board and the report as they are used: in a browser, on a screen and on a phone."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from boards import STRONG, row, source
from browser import MISSING, browser
from recbench.campaign.folder import Campaign
from recbench.cli import main
from recbench.report.board.page import Board, page
from recbench.report.board.sources import gather
from recbench.report.html import page as report
from toys import RUN, trial

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(MISSING is not None, reason=str(MISSING)),
]

RESULTS = Path(__file__).parents[2] / "results"
SCREENS = [(1280, False), (1280, True), (360, False), (320, True)]
SMALLEST = """
    return Math.min(...[...document.querySelectorAll('.chart svg text')].map(text =>
        parseFloat(getComputedStyle(text).fontSize) * text.ownerSVGElement.clientWidth / 560))
"""
OVERLAPS = """
    const boxes = [...document.querySelectorAll('.chart > svg')].map(svg =>
        [...svg.querySelectorAll('text')].map(text => text.getBoundingClientRect())
            .filter(box => box.width));
    const apart = (a, b) => a.right <= b.left + 1 || b.right <= a.left + 1
        || a.bottom <= b.top + 3 || b.bottom <= a.top + 3;
    return boxes.flatMap(all => all.flatMap((a, i) => all.slice(i + 1).filter(b => !apart(a, b))))
        .length
"""
VISIBLE = "return [...document.querySelectorAll('%s')].filter(e => e.checkVisibility()).length"


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """The board of the committed results, and a report with every kind of chart."""
    folder = tmp_path_factory.mktemp("pages")
    sources, left_out = gather([RESULTS])
    assert left_out == []
    assert {one.name for one in sources} >= {"debian-ten", "gowalla-given", "gowalla-als"}
    (folder / "board.html").write_text(page(Board(sources, left_out, [row()])))
    some, _ = gather([RESULTS / name for name in ("debian-ten", "gowalla-given", "gowalla-als")])
    (folder / "some.html").write_text(page(Board(some, [], [])))
    campaign = Campaign(folder / "campaign")
    campaign.create()
    campaign.add_run(RUN)
    for i in range(12):
        for j in range(12):
            settings = {"l2": 0.00012 * 3**i, "p": 0.05 * j}
            costs = {"fit_seconds": 0.1 + i * j, "peak_bytes": 10**8 * (i + 1), "run": "a"}
            one = trial(100 * i + j, 0.1234 + i * j / 1e4, parameters=settings, **costs)
            campaign.record(one)
            campaign.record(
                replace(one, model="dlae", text=f"dlae{i},{j}", trial=f"d{i},{j}",
                        parameters={"l2": settings["l2"]})
            )  # fmt: skip
    (folder / "report.html").write_text(report.page(campaign, "ndcg@20"))
    return folder


@pytest.mark.parametrize(("width", "dark"), SCREENS)
@pytest.mark.parametrize("name", ["board.html", "report.html"])
def test_a_page_is_readable_on_every_screen(made, name, width, dark):
    with browser(width, dark=dark) as page:
        page.open(made / name)
        assert page.run("return innerWidth") == width, "nothing is wider than the screen"
        assert page.run("return document.documentElement.scrollWidth") <= width
        assert page.run(SMALLEST) >= 9.5
        assert page.run(OVERLAPS) == 0
        shade = page.run("return getComputedStyle(document.body).backgroundColor")
        assert shade == ("rgb(21, 23, 27)" if dark else "rgb(255, 255, 255)")
        assert page.run("return performance.getEntriesByType('resource').length") == 0
        assert page.complaints() == []


def test_figures_unfold_their_data_which_sort(made):
    with browser(360) as page:
        page.open(made / "report.html")
        assert page.run(VISIBLE % ".chart td") == 0
        page.click(".chart summary")
        assert page.run(VISIBLE % ".chart td") > 10
        page.click(".chart th:last-child button")
        assert page.run("return document.querySelectorAll('[aria-sort=ascending]').length") == 1
        values = (
            "return [...document.querySelectorAll('.chart tbody')][0].rows[0].cells[3].dataset.v"
        )
        assert float(page.run(values)) == pytest.approx(0.1234)
        assert page.complaints() == []


@pytest.mark.parametrize("width", [1280, 360])
def test_the_board_is_filtered(made, width):
    lines, columns = VISIBLE % ".models tbody tr", VISIBLE % ".models th[data-k]"
    with browser(width) as page:
        page.open(made / "some.html")
        every = page.run(lines)
        assert page.run("return document.querySelector('output').textContent") == f"{every} lines"

        page.type("[name=dataset]", "debian")
        debian = page.run(lines)
        assert 0 < debian < every
        assert page.run(VISIBLE % ".block") == 1
        points = page.run(VISIBLE % ".chart circle")

        page.type("[name=family]", "linear autoencoders")
        linear = page.run(lines)
        assert 0 < linear < debian
        assert page.run(columns) == 3

        page.type("[name=metric]", "ndcg@100")
        assert page.run(lines) == linear
        assert page.run(columns) == 1
        assert page.run(VISIBLE % ".overview tbody a") == linear
        assert page.run(VISIBLE % ".overview thead small") == 1
        models = page.run(
            "return new Set([...document.querySelectorAll('.models tbody tr')]"
            ".filter(e => e.checkVisibility()).map(e => e.cells[0].innerText"
            ".split('\\n')[0])).size"
        )
        assert page.run(VISIBLE % ".overview tbody tr") == models

        page.type("[name=words]", "EDLAE p=0.2")
        assert 0 < page.run(lines) < linear
        assert page.run(VISIBLE % ".chart circle") < max(points, 1)

        page.run("document.forms[0].reset(); document.forms[0].oninput()")
        assert page.run(lines) == every
        page.type("[name=words]", "no such model")
        assert page.run(lines) == 0
        assert page.run("return document.querySelector('output').textContent") == "0 lines"
        assert page.complaints() == []


@pytest.mark.parametrize("width", [1280, 360])
def test_a_number_leads_to_its_trial_and_back(made, width):
    with browser(width) as page:
        page.open(made / "some.html")
        assert page.run(VISIBLE % ".trial") == 0
        page.click(".models tbody td.n a")
        assert page.run(VISIBLE % ".trial") == 1
        words = page.run("return document.querySelector('.trial:target').innerText")
        shown = page.run("return document.querySelector('.models tbody td.n a').textContent")
        full = re.findall(r"\b0\.\d{10,}", words)
        assert shown in {f"{float(number):.4f}" for number in full}
        page.click(".trial:target .close")
        assert page.run(VISIBLE % ".trial") == 0

        page.click(".models tbody td.n a")
        page.run("dispatchEvent(new KeyboardEvent('keydown', {key: 'Escape'}))")
        assert page.run(VISIBLE % ".trial") == 0

        page.click(".models tbody tr td:last-child a")
        assert page.run("return location.hash").startswith("#c-")
        assert page.run(VISIBLE % ".campaign:target") == 1
        assert page.complaints() == []


def test_a_point_of_a_chart_leads_to_its_trial_and_a_printed_number_to_its_line(tmp_path):
    rows = [
        trial(n, n / 10, part="test", split=STRONG, fit_seconds=float(n), parameters={"l2": n})
        for n in (2, 3)
    ]
    one = source(rows[0], replace(rows[1], model="dlae", text="dlae"))
    (tmp_path / "page.html").write_text(page(Board([one], [], [row(printed="0.51")])))
    (tmp_path / "elsewhere.html").write_text("<!doctype html><title>x</title>")
    with browser() as driven:
        driven.open(tmp_path / "page.html")
        driven.click(".chart a circle")
        assert driven.run(VISIBLE % ".trial") == 1
        driven.click(".trial:target .close")
        assert driven.run(VISIBLE % ".printed tbody tr") == 0
        driven.click(".models td small a")
        assert driven.run(VISIBLE % ".printed tbody tr") == 1
        shared = driven.run("return location.hash")
        driven.open(tmp_path / "elsewhere.html")
        driven.open(tmp_path / "page.html", shared)
        assert driven.run(VISIBLE % ".printed tbody tr:target") == 1
        assert driven.complaints() == []


def test_names_from_results_are_never_run(tmp_path):
    name = "</script><script>hacked=1</script><img src=x onerror=hacked=1>\"onmouseover='hacked=1'"
    sane = trial(1, 0.5, part="test", split=STRONG, fit_seconds=1.0)
    bad = replace(sane, model=name, text=name, reason=name, dataset=name, parameters={name: name})
    (tmp_path / "page.html").write_text(page(Board([source(bad, name=name)], [name], [])))
    with browser() as driven:
        driven.open(tmp_path / "page.html")
        driven.type("[name=words]", "script")
        driven.click(".models td a")
        assert driven.run("return typeof hacked") == "undefined"
        assert driven.complaints() == []


def test_the_command_writes_what_is_tested_here(made, tmp_path):
    main(["board", str(RESULTS), "-o", str(tmp_path)], standalone_mode=False)
    assert (tmp_path / "index.html").stat().st_size > 100_000
