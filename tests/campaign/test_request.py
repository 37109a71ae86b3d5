"""One description of a run, whoever asks for it."""

import json
from dataclasses import fields, replace
from pathlib import Path

import pytest

import toys
from recbench import api
from recbench.campaign import request
from recbench.campaign.asked import KNOWN
from recbench.campaign.executors import InProcess
from recbench.campaign.keep import Keep
from recbench.campaign.packed import Packed
from recbench.campaign.processes import Processes
from recbench.campaign.request import Request
from recbench.cli.run import command
from recbench.data.open import OwnFile
from recbench.errors import DataError, UsageError
from recbench.registry import SPLITS, load_plugin
from recbench.splits.weak import Weak

SPREAD = {"spread": True, "executor": "dask", "scheduler": "tcp://a:1"}
DATA = OwnFile(Path("toy.csv"), user="u", item="i")
TOLD = ("announce", "progress", "at_work", "downloads", "command")
SHOWN = {"kind", "quiet", "verbose", "config", "print_config", "dry_run"}
"""What the command decides by itself: how things are shown, and when to stop."""

FIELD = {
    "dataset": "data", "model": "models", "grid": "grids", "metric": "metrics", "seed": "seeds",
    "reveal_test": "parts", "no_validate": "one_each", "tiles_on_disk": "scratch",
    "device": "devices", "plugin": "plugins", "save": "keep", "save_lists": "keep",
}  # fmt: skip
COLUMNS = {
    "user": "u", "item": "i", "value": "stars", "minimum": 4.0, "time": "t", "core": 2,
    "reader": "delimited[quote=false]", "graph": "directed",
}  # fmt: skip


def plain(request: Request) -> Request:
    """What of a request decides the run, in types that compare."""
    for name in ("models", "sets", "grids", "metrics", "seeds", "plugins"):
        request = replace(request, **{name: tuple(getattr(request, name))})
    return replace(request, **dict.fromkeys(TOLD, ()))


@pytest.fixture
def asked(monkeypatch) -> list[Request]:
    """The requests that are made; none is run."""
    made: list[Request] = []

    def keep(self: Request) -> None:
        made.append(self)
        raise UsageError("this is far enough")

    monkeypatch.setattr(Request, "runner", keep)
    return made


def test_every_option_is_a_field_and_every_field_but_a_few_an_option():
    options = {str(option.name) for option in command.params} - SHOWN - {*COLUMNS}
    named = {FIELD.get(name, name) for name in options}
    assert {field.name for field in fields(Request)} - named == {*TOLD, "same_code"}
    assert named <= {field.name for field in fields(Request)}


def test_the_command_offers_the_words_that_a_request_knows():
    offered = {option.name: getattr(option.type, "choices", None) for option in command.params}
    assert {word: tuple(offered[word]) for word in KNOWN} == KNOWN


def test_no_word_is_lost_on_the_way(recbench, folder, asked):
    (folder / "fragile.py").write_text(toys.FAILING)
    recbench(
        "run", "--data", "my.csv", "--user", "u", "--item", "i", "--value", "stars", "--min", "4",
        "--time", "t", "--core", "2", "--graph", "directed", "-m", "ease", "-m", "edlae",
        "--set", "edlae.p=0.5",
        "--grid", "l2=1,10", "--search", "random", "--trials", "3", "--search-seed", "7",
        "--time-limit", "2h",
        "--split", "weak", "-k", "ndcg@5,hit@3", "--select", "recall@5", "--seed", "1,2",
        "--dtype", "float64", "--reveal-test", "-o", "out", "-j", "2", "--executor", "dask",
        "--scheduler", "tcp://there", "--spread", "--threads", "3", "--tiles-on-disk", "tiles",
        "--trace",
        "--save", "models", "--save-lists", "lists", "--reader", "delimited[quote=false]",
        "--device", "cpu,cuda:1", "-f", "--retry-failed", "--debug", "--plugin", "fragile.py",
    )  # fmt: skip
    whole = Request(
        data=OwnFile(Path("my.csv"), **COLUMNS), models=("ease", "edlae"), sets=("edlae.p=0.5",),
        grids=("l2=1,10",), search="random", trials=3, time_limit="2h", search_seed=7, split="weak",
        metrics=("ndcg@5", "hit@3"), select="recall@5", seeds=(1, 2), dtype="float64",
        parts=("valid", "test"), output=Path("out"), jobs=2, executor="dask",
        scheduler="tcp://there", spread=True, threads=3, scratch=Path("tiles"), trace=True,
        debug=True, keep=Keep(Path("models"), Path("lists")), devices=("cpu", "cuda:1"), force=True,
        retry_failed=True, plugins=(Path("fragile.py"),),
    )  # fmt: skip
    assert plain(asked[0]) == plain(whole)
    with pytest.raises(UsageError, match="far enough"):
        api.run(
            ["ease", "edlae"], whole.data, sets={"edlae.p": 0.5}, grid={"l2": [1, 10]},
            search="random", trials=3, time_limit="2h", search_seed=7, split="weak",
            metrics=["ndcg@5", "hit@3"], select="recall@5", seeds=[1, 2], dtype="float64",
            reveal_test=True, output="out",
            jobs=2, executor="dask", scheduler="tcp://there", spread=True, threads=3,
            scratch="tiles", trace=True, save="models", save_lists="lists",
            device=["cpu", "cuda:1"], force=True, retry_failed=True, plugins=["fragile.py"],
        )  # fmt: skip
    assert plain(asked[1]) == plain(replace(whole, debug=False))


def test_to_leave_validation_out_is_to_test_one_setting_of_each_model(recbench, folder, asked):
    recbench("run", "-m", "ease", "--no-validate")
    with pytest.raises(UsageError, match="far enough"):
        api.run("ease", validate=False)
    told = Request(models=["ease"], parts=("test",), one_each=True)
    assert plain(asked[0]) == plain(asked[1]) == plain(told)


def test_validation_may_be_asked_for(recbench, folder, asked):
    recbench("run", "-m", "ease", "--validate")
    with pytest.raises(UsageError, match="far enough"):
        api.run("ease", validate=True)
    told = Request(models=["ease"], validate=True)
    assert plain(asked[0]) == plain(asked[1]) == plain(told)


def test_what_is_not_said_is_the_same_everywhere(recbench, folder, asked):
    recbench("run", "-m", "ease")
    with pytest.raises(UsageError, match="far enough"):
        api.run("ease")
    assert plain(asked[0]) == plain(asked[1]) == plain(Request(models=["ease"]))


CAMPAIGN = """
data: toy.csv
user: u
item: i
model: [ease, ials]
grid: {ease.l2: "1,10", ials.steps: "2"}
metric: recall@5
select: ndcg@10
seed: 0,1
split: weak
"""


def results(folder: Path) -> tuple[list[dict], bytes]:
    """The rows of a campaign without what differs from run to run, and the table."""
    changing = (
        "run", "fit_seconds", "score_seconds", "compile_seconds", "peak_bytes", "digest",
    )  # fmt: skip
    lines = (folder / "trials.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    kept = [{key: row[key] for key in row if key not in changing} for row in rows]
    return kept, (folder / "metrics.csv").read_bytes()


def test_the_same_run_has_the_same_results_whoever_asks(recbench, own, folder):
    words = [
        "-m", "ease", "-m", "ials", "--grid", "ease.l2=1,10", "--grid", "ials.steps=2",
        "-k", "recall@5", "--select", "ndcg@10", "--seed", "0,1", "--split", "weak",
    ]  # fmt: skip
    assert recbench("run", *own, *words, "-o", "words").exit_code == 0
    (folder / "campaign.yaml").write_text(CAMPAIGN)
    assert recbench("run", "-c", "campaign.yaml", "-o", "file").exit_code == 0
    grid = {"ease.l2": [1, 10], "ials.steps": "2"}
    how = {"metrics": ["recall@5"], "select": "ndcg@10", "seeds": [0, 1], "split": "weak"}
    api.run(["ease", "ials"], DATA, grid=grid, output="api", **how)
    grids = ["ease.l2=1,10", "ials.steps=2"]
    request = Request(DATA, ["ease", "ials"], grids=grids, output=folder / "request", **how)
    assert request.run().campaign.folder == folder / "request"
    first, *others = (results(folder / name) for name in ("words", "file", "api", "request"))
    assert len(first[0]) == 4 + 3
    assert all(other == first for other in others)


def test_a_metric_to_select_by_is_measured_too(folder):
    finished = Request(DATA, ["ease", "popularity"], metrics=["recall@20"], select="ndcg@20").run()
    assert finished.plan.select == "ndcg@20"
    assert all(set(row.metrics) == {"recall@20", "ndcg@20"} for row in finished.rows)
    table = api.run("ease", DATA, metrics=["recall@20"], select="ndcg@20")
    assert {"recall@20", "ndcg@20"} <= {*table.columns}


def test_a_metric_that_is_measured_anyway_is_not_added(folder):
    plan, _ = Request(DATA, ["ease"], metrics=["recall@5", "ndcg@5"], select="ndcg@5").plan()
    assert [metric.text for metric in plan.metrics] == ["recall@5", "ndcg@5"]


def test_what_is_measured_unless_told_otherwise_is_a_matter_of_the_split(folder):
    @SPLITS.register("narrow")
    class Narrow(Weak):
        metrics = ("hit@3", "ndcg@5")

    def measured(split: str | None) -> list[str]:
        plan, _ = Request(DATA, ["ease"], split=split).plan()
        assert plan.select == plan.metrics[0].text
        return [metric.text for metric in plan.metrics]

    assert measured("narrow") == ["hit@3", "ndcg@5"]
    assert measured(None) == ["ndcg@100", "recall-capped@20", "recall-capped@50"]
    assert measured("weak") == measured("user-ratio") == ["ndcg@20", "recall@20"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ({"models": []}, "which model? for example -m ease"),
        ({"models": ["eas"]}, "did you mean 'ease'?"),
        ({"sets": ["l3=1"]}, "did you mean 'l2'?"),
        ({"grids": ["p=1"]}, "unknown parameter of ease 'p'"),
        ({"split": "strnog"}, "did you mean 'strong'?"),
        ({"metrics": ["ndgc@10"]}, "did you mean 'ndcg'?"),
        ({"select": "ndgc@10"}, "did you mean 'ndcg'?"),
        ({"select": "gini@5"}, "select by another metric, such as ndcg@20"),
        ({"metrics": ["gini@5", "ndcg@5"]}, "select by another metric, such as ndcg@20"),
        ({"search": "rnadom"}, "did you mean 'random'?"),
        ({"search": "grid", "trials": 3}, "--trials belongs to --search random, tpe or halving"),
        ({"search": "random"}, "needs --trials N"),
        ({"search": "tpe"}, "--search tpe needs --trials N"),
        ({"search": "random", "trials": 0}, "trials must be from 1 to 1,000,000, not 0"),
        (
            {"models": ["popularity"], "trials": 3},
            "nothing to search for popularity; give a range of a parameter",
        ),
        ({"dtype": "float46"}, "did you mean 'float64'?"),
        ({"jobs": 10**9}, "jobs must be from 1 to 1,000, not 1000000000"),
        ({"jobs": 0}, "jobs must be from 1 to 1,000, not 0"),
        ({"threads": -1}, "threads must be from 1 to 10,000, not -1"),
        ({"executor": "dask"}, "--executor dask needs --scheduler ADDRESS"),
        ({"scheduler": "tcp://a:1"}, "--scheduler is for --executor dask"),
        ({"executor": "dusk"}, "did you mean 'dask'?"),
        ({"spread": True}, "add --executor dask --scheduler ADDRESS"),
        (SPREAD | {"keep": Keep(models=Path("m"))}, "with --spread nobody has all of it"),
        (SPREAD | {"models": ["ease", "ials"]}, "such as ease, and ials is none"),
        (SPREAD | {"models": ["ials"], "search": "tpe", "trials": 3}, "and ials is none"),
        ({"executor": "dask", "scheduler": "tcp://a:1", "jobs": 2}, "leave out --jobs"),
        ({"executor": "dask", "scheduler": "tcp://a:1", "jobs": "auto"}, "--jobs auto is for"),
    ],
)
def test_what_does_not_go_together_is_told_before_data_are_touched(folder, words, says):
    with pytest.raises(UsageError) as caught:
        Request(**{"data": Path("nothing.csv"), "models": ["ease"]} | words).plan()
    assert says in str(caught.value)


def test_then_data_are_touched(folder):
    with pytest.raises(DataError, match=r"nothing\.csv: there is no such file"):
        Request(Path("nothing.csv"), ["ease"]).plan()
    with pytest.raises(UsageError, match="--min needs --value COLUMN"):
        OwnFile(Path("toy.csv"), minimum=4)


def test_data_may_be_a_name_a_file_or_in_memory(folder):
    said: list[str] = []
    sources = ("debian", "synthetic:users=99,items=20,interactions=900", DATA, toys.two_tastes())
    for source in sources:
        plan, proposals = Request(source, ["ease"], announce=said.append).plan()
        assert plan.rule.name == "strong"
        assert proposals.total == 1
    assert said == [f"toy.csv: {toys.two_tastes().shape_text}; called {toys.OWN}"]


def test_a_seed_that_is_given_twice_is_one(folder):
    plan, _ = Request(DATA, ["ials"], seeds=[1, 1, 0]).plan()
    assert [trial.seed for trial in plan.trials] == [1, 0]


def test_threads_are_shared_by_the_jobs(folder, monkeypatch):
    monkeypatch.setattr("recbench.campaign.request.usable_cores", lambda: 8)
    for words, threads in (({}, 8), ({"jobs": 3}, 2), ({"jobs": 9}, 1), ({"threads": 5}, 5)):
        assert Request(DATA, ["ease"], **words).runner().worker.context.threads == threads


def test_an_interrupt_says_how_far_it_came(recbench, own, folder):
    (folder / "fragile.py").write_text(toys.FAILING)
    load_plugin(Path("fragile.py"))
    with pytest.raises(KeyboardInterrupt, match="interrupted after 1 of 3 trials; what is finish"):
        Request(DATA, ["fragile"], grids=["x=0,3,4"], output=Path("out")).run()
    words = ["run", *own, "-q", "--plugin", "fragile.py", "-m", "fragile", "--grid", "x=0,3,4"]
    result = recbench(*words, "-o", "again")
    assert result.exit_code == 130
    assert result.stderr.startswith("\ninterrupted after 1 of 3 trials; what is finished is kept")


def executor_of(monkeypatch, cores: int = 4, left: int | None = None, **words):
    monkeypatch.setattr(request, "usable_cores", lambda: cores)
    monkeypatch.setattr(request, "left_by_limits", lambda: left)
    asked = Request(data=toys.two_tastes(), models=["popularity"], **words)
    runner = asked.runner()
    executor = asked._executor(runner)
    executor.close(wait=True)
    return runner, executor


def test_how_many_fits_there_are_at_once_may_be_left_to_the_run(folder, monkeypatch):
    runner, executor = executor_of(monkeypatch, jobs="auto")
    assert isinstance(executor, Packed)
    assert runner.worker.context.threads == 4  # until it is known better
    assert isinstance(executor_of(monkeypatch, jobs="auto", debug=True)[1], InProcess)
    assert isinstance(executor_of(monkeypatch, jobs="auto", cores=1)[1], InProcess)
    assert isinstance(executor_of(monkeypatch, jobs=1)[1], InProcess)
    assert executor_of(monkeypatch, jobs=2)[0].worker.context.threads == 2


def test_where_a_limit_leaves_little_memory_there_is_one_fit_in_a_process(folder, monkeypatch):
    said = []
    _, executor = executor_of(monkeypatch, jobs="auto", left=1, announce=said.append)
    assert isinstance(executor, Processes)
    assert executor.slots == 1
    assert "one fit at a time: a limit of memory leaves no room for two" in said


def test_another_word_for_jobs_is_refused(folder):
    with pytest.raises(UsageError, match="jobs must be a number or auto, not all"):
        Request(models=["popularity"], jobs="all").plan()
