import re
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import pytest

from recbench.campaign.folder import Campaign
from recbench.errors import UsageError
from recbench.report.html.charts import SERIES, heat, lines
from recbench.report.html.figures import figures, pdf, svg, write_figures
from recbench.report.html.landscapes import landscapes
from toys import trial


@pytest.fixture
def campaign(tmp_path) -> Campaign:
    campaign = Campaign(tmp_path)
    campaign.create()
    for number in range(1, 13):
        known = {"parameters": {"l2": float(number), "p": number % 3 / 2}, "fit_seconds": 1.0}
        campaign.record(trial(number, number / 20, **known, facts={"rank": number}))
    return campaign


def test_every_figure_is_a_whole_file_of_its_own(campaign, tmp_path):
    paths = write_figures(campaign, "ndcg@20", tmp_path / "figures")
    assert {path.name for path in paths} >= {"landscape-ease-l2.svg", "quality-rank.svg"}
    for path in paths:
        words = path.read_text(encoding="utf-8")
        root = ElementTree.fromstring(words)
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        assert "var(" not in words
        assert not re.search(r"(href|src)=|url\(|@import", words)


def test_names_of_files_are_plain_and_never_shared(campaign, tmp_path):
    campaign.record(trial(1, 0.3, dataset="a/b", parameters={"l2": 1.0}))
    campaign.record(trial(20, 0.3, dataset="a/b", parameters={"l2": 2.0}))
    paths = write_figures(campaign, "ndcg@20", tmp_path / "figures")
    assert len(set(paths)) == len(paths) == len(list(figures(campaign, "ndcg@20")))
    assert all(re.fullmatch(r"[A-Za-z0-9_.-]+", path.name) for path in paths)


def test_the_legend_is_inside_and_names_are_escaped():
    series = {f"<m{i}>": [(1.0, i / 10, "x"), (2.0, 0.5, "y")] for i in range(SERIES + 2)}
    words = svg(lines(series, "x", "y"))
    root = ElementTree.fromstring(words)
    labels = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {f"<m{i}>" for i in range(SERIES + 2)} <= set(labels)
    assert words.count("fill:none;stroke-width:2") >= 4, "used colours come again as rings"


def test_a_random_search_over_two_parameters_is_points_and_not_a_map():
    rows = [trial(n, n / 100, parameters={"l2": n * 1.1, "p": n * 0.7}) for n in range(1, 30)]
    made = list(landscapes(rows, "ndcg@20"))
    assert [figure.name for figure in made] == ["landscape-ease-l2", "landscape-ease-p"]
    assert all(figure.chart.content.count("<circle") == 29 for figure in made)
    grid = [
        trial(n, n / 100, parameters={"l2": float(n % 5), "p": float(n // 5)}) for n in range(30)
    ]
    (made,) = landscapes(grid, "ndcg@20")
    assert made.chart.content.count("<rect") == 30


def test_a_drawing_becomes_a_pdf():
    pytest.importorskip("cairosvg", exc_type=ImportError)
    made = pdf(svg(heat({(1.0, 2.0): 0.5, (2.0, 2.0): 0.6}, "x", "y", "z")))
    assert made.startswith(b"%PDF")
    assert len(made) > 1000


def test_without_the_extra_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "cairosvg", None)
    with pytest.raises(UsageError, match=r"recbench-suite\[figures\]"):
        pdf("<svg/>")


def test_a_setting_is_one_point_whatever_the_number_of_seeds(tmp_path):
    rows = [
        trial(10 * l2 + seed, l2 / 10 + seed / 100, seed=seed, parameters={"l2": float(l2)})
        for l2 in (1, 2, 3)
        for seed in (0, 2)
    ]
    rows = [replace(row, text=f"ease[l2={row.parameters['l2']:g}]") for row in rows]
    (figure,) = landscapes(rows, "ndcg@20")
    assert figure.chart.content.count("<circle") == 3
    assert "l2=3: 0.31000" in figure.chart.content
