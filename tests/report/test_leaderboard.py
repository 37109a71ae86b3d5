"""Models ranked: means over seeds, marks, letters, and every format they are written in."""

import csv
import io
import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from rich.console import Console

from recbench.campaign.folder import Campaign
from recbench.errors import UsageError
from recbench.registry import MODELS, build
from recbench.report.formats import text
from recbench.report.leaderboard import Wanted, leaderboard_views
from recbench.report.standings import standings
from recbench.report.tables import View, rich_view, shortened, written
from toys import ROW, trial

USERS = 300


@pytest.fixture
def campaign(tmp_path) -> Campaign:
    """Three models: `als` with three seeds, `ease` as good as it, `weak` far behind."""
    campaign = Campaign(tmp_path)
    campaign.create()
    add(campaign, "als", 0.62, seeds=3, peak_bytes=3_000_000_000)
    add(campaign, "ease", 0.61)
    add(campaign, "weak", 0.30)
    return campaign


def add(campaign: Campaign, model: str, level: float, seeds: int = 1, **known: object) -> None:
    """Record a selected trial per seed, with values whose users are easy or hard for everyone."""
    users = np.random.default_rng(0).uniform(-0.2, 0.2, USERS)
    for seed in range(seeds):
        rng = np.random.default_rng([seed, *model.encode()])
        values = np.clip(level + users + rng.normal(0, 0.1, USERS), 0, 1)
        table = pa.table({"user": np.arange(USERS), "ndcg@20": values, "novelty@20": values * 10})
        means = {"ndcg@20": values.mean(), "novelty@20": values.mean() * 10}
        told = {"text": f"{model}[l2={seed + 1}]", "parameters": {"l2": seed + 1.0}, **known}
        row = replace(
            ROW, trial=f"{model}{seed}", model=model, seed=seed, metrics=means, users=USERS, **told
        )
        for part in ("valid", "test"):
            campaign.record(replace(row, part=part), table)


def ranked(campaign: Campaign, **wanted: object) -> View:
    (view,) = leaderboard_views(campaign, Wanted("ndcg@20", **wanted))
    return view


def test_models_are_ranked_by_the_mean_over_their_seeds(campaign):
    frame = ranked(campaign).frame
    assert list(frame["model"]) == ["als", "ease", "weak"]
    seeds = [row.metrics["ndcg@20"] for row in campaign.rows().values() if row.model == "als"][::2]
    assert frame.loc[0, "ndcg@20"] == pytest.approx(np.mean(seeds))
    assert frame.loc[0, "ndcg@20 std"] == pytest.approx(np.std(seeds, ddof=1))
    assert np.isnan(frame.loc[1, "ndcg@20 std"])
    assert list(frame["seeds"]) == ["0,1,2", "0", "0"]
    assert frame.loc[0, "parameters"] == "l2=1|2|3"
    assert frame.loc[0, "peak GB"] == 3.0


def test_of_many_parameters_the_defaults_are_left_out_of_the_legend(tmp_path):
    campaign = Campaign(tmp_path)
    campaign.create()
    models = {name: build(name, MODELS) for name in ("mf-ccl", "mf-ccl[rate=0.5]", "ease[l2=3]")}
    for level, model in enumerate(models.values()):
        add(campaign, model.name + str(level), 0.3 + level / 10, text=model.text,
            parameters=model.values())  # fmt: skip
    view = ranked(campaign)
    left_out = "parameters at their defaults are left out here; --format csv has all of them"
    assert view.notes[:4] == ["a: l2=3", "b: rate=0.5", "c: as by default", left_out]
    assert view.frame.loc[2, "parameters"].count("=") == len(models["mf-ccl"].values())


def test_letters_name_the_models_that_are_significantly_worse(campaign):
    frame = ranked(campaign).frame
    assert list(frame["ndcg@20 better than"]) == ["c", "c", ""]
    assert "novelty@20 better than" not in frame, "more novelty is not better"


def test_two_equal_models_get_no_letters_and_a_sentence(tmp_path):
    campaign = Campaign(tmp_path)
    campaign.create()
    for model in ("ease", "edlae"):
        add(campaign, model, 0.5)
    view = ranked(campaign)
    assert "no difference between two models is significant" in view.notes


def test_models_without_validation_values_stand_trial_by_trial():
    rows = [trial(1, 0.1, part="test"), trial(2, 0.3, part="test")]
    assert [one.model for one in standings(rows, "ndcg@20", "test", "ndcg@20")] == [
        "ease[l2=2]",
        "ease[l2=1]",
    ]


def test_what_a_search_stopped_stands_nowhere_and_is_told(campaign):
    rows = [trial(1, 0.9, stopped=3), trial(2, 0.3, stopped=1)]
    assert standings(rows, "ndcg@20", "valid", "ndcg@20") == []
    before = ranked(campaign).frame
    for row in rows:
        campaign.record(row)
    view = ranked(campaign)
    assert view.frame.drop(columns=["tried", "tuning s"]).equals(before)
    assert "2 trials stopped early by the search: measured there, not selected" in view.notes


def test_sorting_choosing_and_cutting(campaign):
    add(campaign, "odd", 0.2)
    assert list(ranked(campaign, top=2).frame["model"]) == ["als", "ease"]
    assert "ndcg@20" not in ranked(campaign, metrics=["novelty@20"]).columns
    assert ranked(campaign, sort="novelty@20").frame["novelty@20"].is_monotonic_decreasing
    with pytest.raises(UsageError, match="did you mean 'ndcg@20'"):
        ranked(campaign, sort="ndgc@20")


def test_deleted_per_user_values_cost_the_letters_and_nothing_else(campaign):
    (campaign.folder / "per-user" / "weak0-test.parquet").unlink()
    view = ranked(campaign)
    assert list(view.frame["model"]) == ["als", "ease", "weak"]
    assert not [name for name in view.frame if "better than" in name]
    (note,) = [note for note in view.notes if "no significance letters" in note]
    assert "weak0-test.parquet" in note


def test_failed_models_and_damaged_lines_are_told(campaign):
    failed = trial(7, 0.0, status="failed", reason="out of memory")
    campaign.record(replace(failed, model="huge", text="huge[]", metrics={}))
    with campaign.log.open("ab") as log:
        log.write(b'{"trial": "x", "da\n{"trial": "cut')
    notes = " ".join(ranked(Campaign(campaign.folder)).notes)
    assert "huge[]: failed: out of memory" in notes
    assert "1 damaged lines" in notes
    assert "the last line" in notes


def test_several_datasets_have_a_table_each_and_mean_ranks(campaign):
    for model, value in (("als", 0.1), ("ease", 0.9), ("alone", 0.5)):
        row = replace(ROW, trial=f"b{model}", dataset="other", model=model, text=model)
        for part in ("valid", "test"):
            campaign.record(replace(row, part=part, metrics={"ndcg@20": value}))
    *tables, ranks = leaderboard_views(campaign, Wanted("ndcg@20"))
    assert [table.frame.loc[0, "model"] for table in tables] == ["ease", "als"]
    assert list(ranks.frame["mean rank"]) == [1.5, 1.5]
    assert "2 models were not measured everywhere" in ranks.notes[0]
    (one,) = leaderboard_views(campaign, Wanted("ndcg@20", dataset="other"))
    assert "other" in one.title


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_the_console_table_fits_and_marks(campaign, width):
    out = Console(width=width, file=io.StringIO(), force_terminal=True, color_system="standard")
    out.print(rich_view(ranked(campaign), out))
    shown = out.file.getvalue()
    assert re.search(r"\x1b\[1m0\.6\d{3}", shown), "the best is bold"
    assert re.search(r"\x1b\[4m0\.6\d{3}", shown), "the second is underlined"
    plain = re.sub(r"\x1b\[[0-9;]*m", "", shown)
    assert max(map(len, plain.splitlines())) <= width
    assert "…" not in plain


def test_numbers_for_programs_are_in_full(campaign):
    view = ranked(campaign)
    exact = view.frame["ndcg@20"].tolist()
    lines = list(csv.DictReader(io.StringIO(text([view], "csv"))))
    assert [float(line["ndcg@20"]) for line in lines] == exact
    assert {line["part"] for line in lines} == {"test"}
    (table,) = json.loads(text([view], "json"))
    assert [row["ndcg@20"] for row in table["rows"]] == exact
    assert table["rows"][1]["ndcg@20 std"] is None
    assert pd.read_csv(io.StringIO(text([view, view], "csv"))).shape[0] == 6


def test_markdown_marks_and_escapes(campaign):
    add(campaign, "a|b", 0.1)
    shown = text([ranked(campaign)], "md")
    assert re.search(r"\| \*\*0\.6\d{3}\*\* ± 0\.0\d{3} <sup>cd</sup> \|", shown)
    assert "<u>0.6" in shown
    rows = [line for line in shown.splitlines() if line.startswith("|")]
    assert len({len(re.findall(r"(?<!\\)\|", row)) for row in rows}) == 1


def test_latex_is_whole_and_escaped(campaign):
    add(campaign, "50%_&_{x}$#~^\\", 0.1)
    shown = text([ranked(campaign)], "latex")
    for opened, closed in ((r"\begin{table}", r"\end{table}"), (r"\toprule", r"\bottomrule")):
        assert shown.index(opened) < shown.index(closed)
    assert r"50\%\_\&\_\{x\}\$\#\textasciitilde{}\textasciicircum{}\textbackslash{}" in shown
    body = shown.partition("\\midrule\n")[2].partition("\n\\bottomrule")[0].splitlines()
    columns = len(re.search(r"\\begin\{tabular\}\{(\w+)\}", shown)[1])
    assert [len(re.findall(r"(?<!\\)&", line)) for line in body] == [columns - 1] * 4
    assert all(line.endswith(r" \\") for line in body)
    plain = re.sub(r"\\[{}]", "", shown)
    assert plain.count("{") == plain.count("}")
    assert re.search(r"\\textbf\{0\.6\d{3}\} \{\\scriptsize \$\\pm\$ 0\.\d{4}\}", shown)
    assert r"\underline{0.6" in shown
    assert r"\textsuperscript{cd}" in shown


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
def test_latex_compiles(campaign, tmp_path: Path):
    add(campaign, '50%_&_{x}$#~^\\<>|"', 0.1)
    body = text([ranked(campaign)], "latex")
    (tmp_path / "t.tex").write_text(
        "\\documentclass{article}\\usepackage{booktabs}\\begin{document}\n"
        f"{body}\n\\end{{document}}\n"
    )
    done = subprocess.run(
        ["pdflatex", "-halt-on-error", "-interaction=nonstopmode", "t.tex"],
        cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:]


@pytest.mark.parametrize(
    ("letters", "short"),
    [("", ""), ("a", "a"), ("ab", "ab"), ("abd", "abd"), ("bcdfxyz", "b-dfx-z")],
)
def test_runs_of_letters_are_shortened(letters, short):
    assert shortened(letters) == short


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_a_narrow_screen_costs_columns_and_never_digits(width):
    frame = pd.DataFrame({
        "model": ["edlae-admm", "rg2-svd"], "parameters": ["k=50 l2=10 p=0.5", "factors=32"],
        "recall-capped@20": [0.6263, 0.5417], "recall-capped@50": [0.7125, 0.6487],
        "objective": [88775.2016, -12.5], "induced rank": [136, 50], "fit s": [1.5, 0.49],
    })  # fmt: skip
    view = View("T", frame, marked=[0], spare=["induced rank", "objective", "fit s"])
    out = Console(width=width, file=io.StringIO())
    out.print(rich_view(view, out), crop=False)
    shown = " ".join(out.file.getvalue().split())
    for whole in ("edlae-admm *", "rg2-svd", "0.6263", "0.7125", "0.5417", "0.6487"):
        assert whole in shown, shown
    for name, value in (("objective", "88775.2016"), ("induced rank", "136"), ("fit s", "1.50")):
        assert (value in shown) != (name in shown.partition("no room for")[2]), shown
    assert ("no room" in shown) == (width < 120)


@pytest.mark.parametrize("kind", ["table", "csv", "json", "latex", "md"])
def test_nothing_around_a_table_speaks_to_the_terminal(kind):
    odd = "a\x1b[31m\x9bz"
    view = View(odd, pd.DataFrame({"model": [odd], odd: [0.5]}), notes=[odd])
    out = io.StringIO()
    if kind == "table":
        Console(width=99, file=out).print(rich_view(view, Console(width=99)))
    shown = out.getvalue() or text([view], kind)
    assert shown
    assert not {"\x1b", "\x9b"} & {*shown}


def test_nothing_has_no_sign():
    assert written("A - B", -0.00001) == "0.0000"
    assert written("fit s", -0.001) == "0.00"
    assert written("A - B", -0.0001) == "-0.0001"


def test_facts_that_are_whole_numbers_stay_so(campaign):
    add(campaign, "mf", 0.5, facts={"induced rank": 136})
    frame = ranked(campaign).frame.set_index("model")
    assert written("induced rank", frame.loc["mf", "induced rank"]) == "136"
    assert written("induced rank", frame.loc["ease", "induced rank"]) == "–"


def test_a_dataset_or_a_metric_that_is_not_there_is_named(campaign):
    for wanted in ({"dataset": "nope"}, {"select": "recall@3"}):
        with pytest.raises(UsageError, match=r"nope|recall@3"):
            leaderboard_views(campaign, Wanted(**({"select": "ndcg@20"} | wanted)))
