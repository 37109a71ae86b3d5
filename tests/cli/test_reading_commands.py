"""`show`, `compare` and `report` from the command line, on good folders and on damaged ones."""

import io
import json
import shutil

import pandas as pd
import pytest
from click.testing import CliRunner
from rich.console import Console

import toys
from recbench.campaign.row import SCHEMA
from recbench.cli import main
from recbench.cli.common import console
from recbench.report.tables import View, rich_view


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Two models run on the small file: their results."""
    folder = tmp_path_factory.mktemp("whole")
    (folder / "toy.csv").write_text(toys.csv_of(toys.two_tastes()))
    words = ["run", "--data", str(folder / "toy.csv"), "--user", "u", "--item", "i", "-m", "ease"]
    words += ["-m", "popularity", "--grid", "l2=1,10", "-k", "ndcg@10,recall@5"]
    done = CliRunner().invoke(main, [*words, "-o", str(folder / "results")])
    assert done.exit_code == 0, done.output
    return folder / "results"


@pytest.fixture
def ran(whole, folder):
    """The results of these two, in the default folder."""
    return shutil.copytree(whole, folder / "results" / f"{toys.OWN}-strong")


def one_sentence(result, code: int, says: str) -> None:
    assert result.exit_code == code, result.output
    assert says in result.stderr
    assert "Traceback" not in result.stderr
    assert len(result.stderr.strip().splitlines()) <= 3


def test_show_ranks_models(recbench, ran):
    shown = recbench("show")
    assert shown.exit_code == 0, shown.output
    assert "ease" in shown.stdout.partition("popularity")[0]
    assert "peak GB" in shown.stdout
    top = json.loads(recbench("show", "--top", "1", "-k", "recall@5", "--json").stdout)
    (row,) = top[0]["rows"]
    assert row["model"] == "ease"
    assert "ndcg@10" not in row


@pytest.mark.parametrize("kind", ["csv", "md", "latex", "json"])
@pytest.mark.parametrize(
    "words", [["show"], ["show", "--trials"], ["compare", "ease", "popularity"]]
)
def test_every_table_has_every_format(recbench, ran, words, kind):
    result = recbench(*words, "--format", kind)
    assert result.exit_code == 0, result.output
    assert result.stdout.strip()


def test_compare_asks_by_group(recbench, ran):
    (table,) = json.loads(recbench("compare", "ease", "popularity", "--json").stdout)
    groups = {row["of"] for row in table["rows"]}
    assert "all" in groups
    assert {row["metric"] for row in table["rows"]} == {"ndcg@10", "recall@5"}
    assert all(row["A - B low"] <= row["A - B"] <= row["A - B high"] for row in table["rows"])


@pytest.mark.parametrize("width", [60, 80, 100])
def test_p_values_and_names_are_there_on_any_screen(recbench, ran, width):
    def printed(*words: str) -> str:
        done = CliRunner().invoke(main, list(words), env={"COLUMNS": str(width)})
        assert done.exit_code == 0, done.output
        assert max(map(len, done.stdout.splitlines())) <= width
        return done.stdout

    compared = printed("compare", "ease", "popularity")
    (table,) = json.loads(recbench("compare", "ease", "popularity", "--json").stdout)
    for row in table["rows"]:
        (line,) = [text for text in compared.splitlines() if text.split()[:1] == [row["metric"]]
                   and f" {row['of']} " in text]  # fmt: skip
        assert f" {row['p (Holm)']:.4f} " in line
        assert row["verdict"] in line
    for words in (["show"], ["show", "--side-by-side"], ["show", "--trials"]):
        shown = printed(*words)
        assert {"ease", "popularity"} <= {*shown.split()}
        assert "ndcg" in shown
        assert "recall" in shown


def test_what_is_too_wide_for_a_screen_stands_below():
    frame = pd.DataFrame({"model": ["lightgcn+infonce-debiased", "ease"]})
    for number in range(9):
        frame[f"recall@{number}"] = [0.1234, 0.5 + number / 100]
    out = Console(width=60, file=io.StringIO())
    out.print(rich_view(View("T", frame), out), crop=False)
    shown = out.file.getvalue()
    assert max(map(len, shown.splitlines())) <= 60
    assert shown.count("lightgcn+infonce-debiased") == shown.count("ease") > 1
    assert shown.count("0.1234") == 9
    assert all(f"@{number}" in shown and f"0.5{number}00" in shown for number in range(9))


def test_a_pipe_is_as_wide_as_a_page(recbench, ran, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    assert console().width == 100
    monkeypatch.setenv("COLUMNS", "72")
    assert console().width == 72


def test_report_writes_its_charts_beside_it(recbench, ran, folder):
    result = recbench("report", "--figures", "charts")
    assert result.exit_code == 0, result.output
    assert (ran / "report.html").exists()
    assert (folder / "charts" / "landscape-ease-l2.svg").exists()
    assert recbench("report", "--pdf").exit_code == 2


def test_a_half_written_line_is_left_out_and_told(recbench, ran):
    with (ran / "trials.jsonl").open("ab") as log:
        log.write(b'{"trial": "abc", "datas')
    shown = recbench("show")
    assert shown.exit_code == 0
    assert "cut short" in shown.stdout
    assert "ease" in shown.stdout


@pytest.mark.parametrize("command", ["show", "report", "compare"])
def test_results_of_a_newer_version_are_one_sentence(recbench, ran, command):
    words = [command, "ease", "popularity"][: 3 if command == "compare" else 1]
    manifest = ran / "manifest.json"
    manifest.write_text(json.dumps({"schema": SCHEMA + 1, "runs": []}))
    one_sentence(recbench(*words), 3, "manifest.json was written by a newer recbench")
    manifest.unlink()
    with (ran / "trials.jsonl").open("a") as log:
        log.write(json.dumps({"schema": SCHEMA + 1, "trial": "x"}) + "\n")
    one_sentence(recbench(*words), 3, "upgrade recbench to read it")


def test_deleted_per_user_values_are_one_sentence(recbench, ran):
    for path in (ran / "per-user").glob("*-test.parquet"):
        path.unlink()
    one_sentence(recbench("compare", "ease", "popularity"), 3, "are gone")
    shown = recbench("show")
    assert shown.exit_code == 0
    assert "no significance letters" in shown.stdout
    assert recbench("report").exit_code == 0


def test_a_dataset_that_nobody_knows_any_more_is_still_shown(recbench, folder):
    """Reading needs no catalogue: a stanza that was renamed leaves its results readable."""
    stanza = (
        "mine:\n  title: Mine\n  licence: mine\n  reader: delimited\n"
        "  options: {columns: {user: u, item: i}}\n  files: [{name: toy.csv, path: toy.csv}]\n"
    )
    (folder / "datasets.yaml").write_text(stanza)
    assert recbench("run", "-d", "mine", "-m", "ease", "-m", "popularity").exit_code == 0
    (folder / "datasets.yaml").write_text(stanza.replace("mine:", "renamed:", 1))
    for words in (["show"], ["compare", "ease", "popularity"], ["report"]):
        assert recbench(*words).exit_code == 0


def test_several_datasets_in_one_folder_are_kept_apart(recbench, ran):
    other = ["-d", "synthetic:users=200,items=40,interactions=2000,seed=1", "-o", str(ran)]
    assert recbench("run", *other, "-m", "ease", "-m", "popularity").exit_code == 0
    tables = json.loads(recbench("show", "--json").stdout)
    assert [table["title"][:3] for table in tables] == ["syn", "toy"]
    assert [len(table["rows"]) for table in tables] == [2, 2]
    (table,) = json.loads(recbench("show", "--json", "--sort", "ndcg@10").stdout)
    assert table["title"].startswith("toy")
    compared = ["compare", "ease", "popularity"]
    one_sentence(recbench(*compared), 2, "give the id")
    assert recbench(*compared, "-d", toys.OWN).exit_code == 0
    page = recbench("report")
    assert page.exit_code == 0, page.output


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["show", "--sort", "ndgc@10"], 2, "did you mean 'ndcg@10'"),
        (["show", "--sort", "ndcg@99"], 2, "did you mean 'ndcg@10'"),
        (["show", "-d", "other"], 2, f"unknown dataset in results/{toys.OWN}-strong 'other'"),
        (["show", "--trials", "-d", "other"], 2, "unknown dataset in"),
        (["show", "--trials", "--select", "ndcg@99"], 2, "did you mean 'ndcg@10'"),
        (["show", "nowhere"], 3, "nowhere holds no results"),
        (["compare", "eas", "popularity"], 2, "did you mean 'ease'"),
        (["report", "-o", "/proc/report.html"], 3, "cannot be written"),
    ],
)
def test_a_wrong_question_is_one_sentence(recbench, ran, words, code, says):
    one_sentence(recbench(*words), code, says)


def test_seeds_are_shown_with_their_spread(recbench, own, folder):
    noise = (
        "rng = np.random.default_rng(ctx.seed)\n        counts = rng.random(train.shape[1]) * np"
    )
    noisy = toys.MODEL.replace('"rarity"', '"noisy"').replace("counts = np", noise)
    noisy = noisy.replace("    power:", "    stochastic = True\n    power:")
    (folder / "noisy.py").write_text(noisy)
    result = recbench("run", *own, "--plugin", "noisy.py", "-m", "noisy", "--seed", "0,1,2")
    assert result.exit_code == 0, result.output
    shown = recbench("show")
    assert "±" in shown.stdout
    assert "3 seeds" in shown.stdout
