import json
import math
import sys
from statistics import mean

import pytest

import toys
from recbench.campaign.executors import Parcel
from recbench.campaign.folder import Campaign
from recbench.campaign.plan import Plan
from recbench.campaign.processes import Processes
from recbench.campaign.runner import Runner
from recbench.campaign.search.grammar import spaces_from
from recbench.campaign.search.proposals import ROUND, STARTUP, Tpe, new_study, random_models
from recbench.campaign.worker import Worker
from recbench.errors import UsageError
from recbench.evaluate.metrics import parse_metric
from recbench.models.linear import lae
from recbench.registry import MODELS, load_plugin
from recbench.splits.strong import Strong

RANGE = ["l2=0.01:10000"]


def plan(*models, **changes) -> Plan:
    metric = parse_metric("ndcg@10")
    return Plan(toys.two_tastes(), Strong(), models, [metric], metric.text, **changes)


@pytest.fixture
def optuna():
    return pytest.importorskip("optuna", reason="needs the extra 'search'")


def tpe(made: Plan, *names: str, trials: int, grids=RANGE) -> Tpe:
    return Tpe(made, spaces_from(names, (), grids), trials, seed=0)


def searcher(folder, *names: str, trials: int, **changes) -> Runner:
    made = plan(**changes)
    search = tpe(made, *(names or ("ease",)), trials=trials)
    return Runner(Worker(made), Campaign(folder), search=search)


def test_random_search_is_a_list_of_models_known_beforehand():
    spaces = spaces_from(["ease", "edlae[p=0.5]", "popularity"], (), RANGE)
    models = random_models(spaces, 5, seed=3)
    assert [model.name for model in models] == ["ease"] * 5 + ["edlae"] * 5 + ["popularity"]
    assert random_models(spaces, 7, seed=3)[:5] == models[:5]


def test_a_search_without_anything_to_vary_is_refused():
    with pytest.raises(UsageError, match="nothing to search for ease, popularity; give a range"):
        random_models(spaces_from(["ease[l2=7]", "popularity"]), 5, seed=0)


def test_learning_pays(optuna):
    """With a made-up validation value that peaks at l2 = 50, proposals gather around it."""
    made = plan()
    search = tpe(made, "ease", trials=60)
    rounds, models = [], []
    while batch := search.propose(lambda trial: -off(trial.model)):
        rounds.append(len(batch))
        models += [trial.model for trial in batch]
    assert rounds == [STARTUP] + [ROUND] * 12 + [2]
    assert len({model.text for model in models}) == search.total == 60
    at_random = random_models(spaces_from(["ease"], (), RANGE), 60, seed=0)
    assert models[:STARTUP] == at_random[:STARTUP]
    assert mean(map(off, models[-20:])) < mean(map(off, at_random)) / 2


def off(model: lae.Ease) -> float:
    return abs(math.log(model.l2 / 50))


def test_a_failure_has_no_place_among_the_values(optuna):
    """Only the order of values counts: lowered by a thousand they lead to the same proposals.

    Were a failure worth zero, it would be the worst of the one and the best of the other.
    """

    def proposed(lower: float) -> list[str]:
        search, texts = tpe(plan(), "ease", trials=40), []
        while batch := search.propose(
            lambda trial: None if trial.model.l2 > 500 else 20 - off(trial.model) - lower
        ):
            texts += [trial.model.text for trial in batch]
        return texts

    assert proposed(lower=0) == proposed(lower=1000)


def test_a_search_ends_with_its_space(optuna):
    search = tpe(plan(), "edlae", trials=50, grids=["l2=1,10,100", "p=0.2,0.5"])
    found = []
    while batch := search.propose(lambda trial: trial.model.l2):
        found += [trial.model.text for trial in batch]
    assert len(found) == len(set(found)) == search.total == 6


def test_words_and_whole_numbers_can_be_searched(optuna, tmp_path):
    path = tmp_path / "wordy.py"
    path.write_text(
        toys.FAILING.replace("fragile", "wordy").replace(
            "def fit(", 'how: str = param("a", help="", choices=("a", "b"))\n\n    def fit('
        )
    )
    load_plugin(path)
    search = tpe(plan(), "wordy", trials=30, grids=["x=5:9", "how=a,b"])
    found = set()
    while batch := search.propose(lambda trial: float(trial.model.x)):
        found |= {(trial.model.x, trial.model.how) for trial in batch}
    assert len(found) == search.total == 10


def test_each_seed_of_a_model_that_has_one_is_searched(optuna, monkeypatch):
    monkeypatch.setattr(lae.Ease, "stochastic", True)
    search = tpe(plan(seeds=(0, 1)), "ease", trials=3)
    assert [trial.seed for trial in search.propose(lambda trial: None)] == [0, 0, 0, 1, 1, 1]


@pytest.mark.parametrize("stop", [3, 12])
def test_a_search_that_was_killed_ends_in_the_same_table(tmp_path, optuna, stop):
    searcher(tmp_path / "whole", trials=14).run()
    killed = searcher(tmp_path / "killed", trials=14)
    record, done = killed._record, []

    def record_or_die(outcome) -> None:
        record(outcome)
        done.append(outcome)
        if len(done) == stop:
            raise KeyboardInterrupt

    killed._record = record_or_die
    with pytest.raises(KeyboardInterrupt):
        killed.run()
    again = searcher(tmp_path / "killed", trials=14)
    said = []
    again.announce = said.append
    again.run()
    assert f"{stop} finished trials found, {14 - stop} to run" in said
    tables = [(tmp_path / name / "metrics.csv").read_bytes() for name in ("whole", "killed")]
    assert tables[0] == tables[1]
    lines = (tmp_path / "killed" / "trials.jsonl").read_text().splitlines()
    log = [json.loads(line) for line in lines]
    keys = [(row["trial"], row["part"]) for row in log]
    assert len(keys) == len(set(keys)) == 15


def test_more_trials_go_on_from_what_is_there(tmp_path, optuna):
    searcher(tmp_path / "grown", trials=12).run()
    searcher(tmp_path / "grown", trials=16).run()
    searcher(tmp_path / "whole", trials=16).run()
    texts = [
        [row.text for row in Campaign.open(tmp_path / name).rows().values() if row.part == "valid"]
        for name in ("grown", "whole")
    ]
    assert texts[0] == texts[1]


@pytest.mark.slow
def test_the_number_of_processes_does_not_change_what_is_found(tmp_path, optuna):
    searcher(tmp_path / "one", trials=12).run()
    made = searcher(tmp_path / "two", trials=12)
    made.executor = Processes(Parcel.of(made.worker), 2)
    made.run()
    tables = [(tmp_path / name / "metrics.csv").read_bytes() for name in ("one", "two")]
    assert tables[0] == tables[1]


def test_test_values_do_not_lead_a_search(tmp_path, optuna):
    """With test values revealed the same trials are proposed; test rows alone teach nothing."""
    hidden = searcher(tmp_path / "hidden", trials=14)
    shown = searcher(tmp_path / "shown", trials=14, parts=("valid", "test"))
    for made in (hidden, shown):
        made.run()
    assert [t.id for t in hidden.trials] == [t.id for t in shown.trials]


def test_a_failed_trial_counts_and_stops_nothing(tmp_path, optuna):
    path = tmp_path / "fragile.py"
    path.write_text(toys.FAILING)
    load_plugin(path)
    made = plan()
    search = Tpe(made, spaces_from(["fragile"], (), ["x=0,1,2,4,5"]), 4, seed=0)
    rows = Runner(Worker(made), Campaign(tmp_path / "r"), search=search).run()
    valid = [row for row in rows if row.part == "valid"]
    assert len(valid) == 4
    assert {row.status for row in valid} > {"ok"}
    assert MODELS.get("fragile")


def test_a_run_tells_its_search_what_was_measured_and_of_failures_nothing(tmp_path, optuna):
    path = tmp_path / "fragile.py"
    path.write_text(toys.FAILING.replace("self.x == 1", "self.x > 50"))
    load_plugin(path)
    made = plan()

    def search() -> Tpe:
        return tpe(made, "fragile", trials=30, grids=["x=4:100:1"])

    rows = Runner(Worker(made), Campaign(tmp_path / "r"), search=search()).run()
    valid = {row.trial: row for row in rows if row.part == "valid"}
    assert {row.status for row in valid.values()} == {"ok", "failed"}
    again, proposed = search(), []
    while batch := again.propose(lambda trial: valid[trial.id].metrics.get("ndcg@10")):
        proposed += [trial.id for trial in batch]
    assert proposed == list(valid)


def test_the_manifest_says_what_was_searched(tmp_path, optuna):
    searcher(tmp_path, trials=3).run()
    about = json.loads((tmp_path / "manifest.json").read_text())["runs"][0]["search"]
    assert about == {
        "by": "tpe", "trials": 3, "seed": 0, "optuna": optuna.__version__,
        "spaces": ["ease l2=0.01:10000:log"],
    }  # fmt: skip


def test_without_optuna_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(UsageError, match=r"pip install 'recbench-suite\[search\]'"):
        new_study("")
