import json
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

import toys
from recbench.campaign.executors import Parcel
from recbench.campaign.folder import Campaign
from recbench.campaign.plan import Plan
from recbench.campaign.processes import Processes
from recbench.campaign.row import Row
from recbench.campaign.runner import Runner
from recbench.campaign.tasks import tasks_of
from recbench.campaign.worker import Worker
from recbench.data.interactions import PARTS
from recbench.errors import UsageError
from recbench.evaluate.metrics import parse_metric
from recbench.linalg.steps import STEPS
from recbench.models import checkpoint
from recbench.models.base import Model
from recbench.models.context import Context
from recbench.models.factors import als
from recbench.models.linear import lae
from recbench.models.popularity import Popularity
from recbench.registry import MODELS, load_plugin
from recbench.splits.given import Given
from recbench.splits.strong import Strong
from recbench.splits.weak import Weak

METRICS = [parse_metric("ndcg@10"), parse_metric("recall@5")]


def plan(*models, **changes) -> Plan:
    known = {"rule": Strong(), "metrics": METRICS, "select": "ndcg@10"} | changes
    return Plan(dataset=toys.two_tastes(), models=models, **known)


def runner(folder: Path, *models, context: Context | None = None, force=False, **changes) -> Runner:
    worker = Worker(plan(*models, **changes), context or Context())
    return Runner(worker, Campaign(folder), force=force)


def means(rows) -> dict[tuple[str, str], dict[str, float]]:
    return {(row.text, row.part): dict(row.metrics) for row in rows}


GRID = tuple(lae.Ease(l2=value) for value in (0.1, 10.0, 1e6))


@pytest.fixture(scope="module")
def fragile(tmp_path_factory):
    path = tmp_path_factory.mktemp("plugins") / "fragile.py"
    path.write_text(toys.FAILING)
    load_plugin(path)
    return MODELS.get("fragile")


def test_every_trial_is_validated_and_only_the_best_is_tested(tmp_path):
    rows = runner(tmp_path, *GRID, Popularity()).run()
    valid = {row.text: row.metrics["ndcg@10"] for row in rows if row.part == "valid"}
    tested = {row.text for row in rows if row.part == "test"}
    best = max((model.text for model in GRID), key=valid.__getitem__)
    assert len(valid) == 4
    assert tested == {best, "popularity"}
    assert valid[best] > valid["popularity"]


def test_a_model_beats_popularity_for_the_right_reason(tmp_path):
    """Metrics recomputed from scratch: fit, score, mask, sort, count."""
    made = runner(tmp_path, lae.Ease(l2=5.0))
    (row,) = [row for row in made.run() if row.part == "test"]
    split = made.worker.split
    dense = split.train.toarray().astype(float)
    inverse = np.linalg.inv(dense.T @ dense + 5.0 * np.eye(dense.shape[1]))
    weights = -inverse / np.diag(inverse)
    np.fill_diagonal(weights, 0.0)
    found = []
    for history, target in zip(
        split.test.history.toarray(), split.test.target.toarray(), strict=True
    ):
        scores = np.where(history > 0, -np.inf, history @ weights)
        found.append(target[np.argsort(-scores, kind="stable")[:5]].sum() / target.sum())
    assert row.metrics["recall@5"] == pytest.approx(np.mean(found), rel=1e-12)


def test_per_user_values_average_to_the_table(tmp_path):
    made = runner(tmp_path, GRID[1])
    for row in made.run():
        values = made.campaign.per_user(row)
        assert values["ndcg@10"].mean() == pytest.approx(row.metrics["ndcg@10"], rel=1e-12)
        assert set(values["user"]) <= set(made.plan.dataset.user_ids.to_pylist())
        assert len(values) == row.users


def test_the_same_run_twice_and_on_two_threads_gives_the_same_numbers(tmp_path):
    first = means(runner(tmp_path / "a", *GRID, context=Context(threads=1)).run())
    second = means(runner(tmp_path / "b", *GRID, context=Context(threads=1)).run())
    threads = means(runner(tmp_path / "c", *GRID, context=Context(threads=2)).run())
    assert first == second
    for key, values in first.items():
        assert threads[key] == pytest.approx(values, abs=5e-7)


def test_single_and_double_precision_agree_to_four_digits(tmp_path):
    single = means(runner(tmp_path / "a", *GRID).run())
    double = means(runner(tmp_path / "b", *GRID, dtype="float64").run())
    for key, values in single.items():
        assert double[key] == pytest.approx(values, abs=5e-5)


def test_finished_trials_are_not_run_again(tmp_path, monkeypatch):
    first = runner(tmp_path, *GRID[:2]).run()
    before = (tmp_path / "trials.jsonl").read_bytes()
    said = []
    again = runner(tmp_path, *GRID)
    again.announce = said.append
    fitted = []
    real = lae.invert
    monkeypatch.setattr(lae, "invert", lambda *a: fitted.append(a[2]) or real(*a))
    rows = again.run()
    assert "2 finished trials found, 1 to run" in said
    assert fitted == [1e6]
    assert (tmp_path / "trials.jsonl").read_bytes().startswith(before)
    assert means(first).items() <= means(rows).items()


def test_force_runs_them_again(tmp_path):
    runner(tmp_path, GRID[0]).run()
    runner(tmp_path, GRID[0], force=True).run()
    assert len((tmp_path / "trials.jsonl").read_bytes().splitlines()) == 4


def test_another_metric_is_added_to_finished_trials(tmp_path):
    runner(tmp_path, GRID[0]).run()
    rows = runner(tmp_path, GRID[0], metrics=[*METRICS, parse_metric("hit@3")]).run()
    assert all(set(row.metrics) == {"ndcg@10", "recall@5", "hit@3"} for row in rows)


def test_a_failing_trial_is_a_row_and_stops_nothing(tmp_path, fragile):
    models = [fragile(x=value) for value in (0, 1, 2)]
    rows = {row.text: row for row in runner(tmp_path, *models).run() if row.part == "valid"}
    assert rows["fragile[x=0]"].status == "ok"
    failed = rows["fragile[x=1]"]
    assert failed.status == "failed"
    assert failed.reason.startswith("ZeroDivisionError: one is none (")
    assert failed.reason.endswith("fragile.py, line 20)")
    assert rows["fragile[x=2]"].status == "skipped"
    assert "10 GB" in rows["fragile[x=2]"].reason


def test_a_failed_trial_is_tried_again_only_where_that_is_asked(tmp_path, fragile):
    def lines() -> int:
        return len((tmp_path / "trials.jsonl").read_bytes().splitlines())

    models = [fragile(x=1), fragile(x=2)]
    runner(tmp_path, *models).run()
    assert lines() == 2
    said = []
    again = runner(tmp_path, *models)
    again.announce = said.append
    again.run()
    assert lines() == 2
    assert "2 trials failed earlier; --retry-failed tries them again" in said
    asked = runner(tmp_path, *models)
    asked.retry_failed = True
    asked.run()
    assert lines() == 4


def test_an_interrupt_keeps_what_is_finished(tmp_path, fragile):
    interrupted = runner(tmp_path, fragile(x=0), fragile(x=3), fragile(x=4))
    with pytest.raises(KeyboardInterrupt):
        interrupted.run()
    campaign = Campaign.open(tmp_path)
    assert [row.text for row in campaign.rows().values()] == ["fragile[x=0]"]
    assert (tmp_path / "metrics.csv").exists()
    assert campaign.manifest()["runs"][-1]["status"] == "interrupted"


def test_after_an_interrupt_the_same_process_can_go_on(tmp_path, fragile):
    interrupted = runner(tmp_path, fragile(x=3), Popularity())
    with pytest.raises(KeyboardInterrupt):  # whose traceback a notebook keeps
        interrupted.run()
    assert not (tmp_path / ".claims").exists()
    assert Campaign(tmp_path).claim("fragile") is not None


def test_revealed_test_values_are_marked_as_not_selected(tmp_path):
    rows = runner(tmp_path, *GRID, parts=("valid", "test")).run()
    assert sum(row.part == "test" for row in rows) == 3
    table = (tmp_path / "metrics.csv").read_text().splitlines()
    assert sum(",test,False," in line for line in table) == 2


def test_the_table_is_the_same_bytes_whatever_the_order(tmp_path):
    runner(tmp_path / "a", *GRID).run()
    runner(tmp_path / "b", *GRID[::-1]).run()
    assert (tmp_path / "a" / "metrics.csv").read_bytes() == (
        tmp_path / "b" / "metrics.csv"
    ).read_bytes()


def test_the_manifest_says_what_made_the_numbers(tmp_path):
    runner(tmp_path, GRID[0]).run()
    (run,) = json.loads((tmp_path / "manifest.json").read_text())["runs"]
    assert run["status"] == "finished"
    assert run["dataset"]["fingerprint"] == toys.two_tastes().fingerprint
    assert {"cpu", "blas", "memory_bytes", "packages", "recbench", "commit", "dirty"} <= set(
        run["environment"]
    )
    assert run["peak_memory_bytes"] > 1e6


@pytest.mark.parametrize("jobs", [1, 2], ids=["here", "in other processes"])
def test_the_manifest_says_what_every_step_took(tmp_path, jobs):
    made = runner(tmp_path, *GRID)
    if jobs > 1:
        made.executor = Processes(Parcel.of(made.worker), jobs)
    STEPS.taken()  # other tests have fitted, too
    made.run()
    (run,) = json.loads((tmp_path / "manifest.json").read_text())["runs"]
    steps = run["steps"]
    assert {"split", "fit", "inverse", "Gram matrix", "ranking", "metrics", "record"} <= set(steps)
    assert all(0 <= step["seconds"] < 100 for step in steps.values())
    assert steps["inverse"]["times"] == len({model.l2 for model in GRID})
    assert steps["inverse"]["peak_bytes"] > 1e6


def test_a_trial_is_known_by_everything_that_decides_its_numbers():
    def of(**changes) -> str:
        return plan(GRID[0], **changes).trials[0].id

    ids = {of(), of(rule=Strong(seed=1)), of(dtype="float64"), plan(GRID[1]).trials[0].id}
    assert len(ids) == 4
    assert of() == of(metrics=METRICS[:1])


@pytest.mark.parametrize("revised", [Strong, lae.Ease], ids=["split", "model"])
def test_a_revision_is_another_trial(revised, monkeypatch):
    before = plan(GRID[0]).trials[0].id
    monkeypatch.setattr(revised, "revision", revised.revision + 1)
    assert plan(GRID[0]).trials[0].id != before


def test_what_a_model_holds_has_a_revision_too(monkeypatch):
    def trial(**settings) -> str:
        return plan(als.Ials.of(**settings)).trials[0].id

    plain, patient = trial(), trial(patience=2)
    assert plain == "97742124aa1d"  # as ever
    assert patient != "4b9ff1ac721e"  # refitted otherwise than before
    monkeypatch.setattr(als.losses.Ials, "revision", 2)
    assert trial() != plain


def test_other_data_and_another_seed_are_other_trials(monkeypatch):
    """Also where the order of rows, which goes by its own digest, does not count."""
    monkeypatch.setattr(lae.Ease, "stochastic", True)
    data = toys.two_tastes()
    same = Plan(data, Weak(), GRID[:1], METRICS, "ndcg@10", seeds=(0, 1))
    others = [
        replace(same, dataset=d) for d in (replace(data, name="toys"), toys.two_tastes(seed=1))
    ]
    ids = {trial.id for made in (same, *others) for trial in made.trials}
    assert len(ids) == 6


def test_row_order_counts_where_the_split_draws_from_it():
    data = toys.two_tastes()
    turned = replace(data, user=data.user[::-1].copy(), item=data.item[::-1].copy())
    assert data.fingerprint == turned.fingerprint
    for rule, same in ((Strong(), False), (Weak(), True)):
        ids = {Plan(d, rule, GRID, METRICS, "ndcg@10").trials[0].id for d in (data, turned)}
        assert (len(ids) == 1) == same


def test_a_model_without_randomness_is_run_once_for_all_seeds():
    assert len(plan(GRID[0], seeds=(0, 1, 2)).trials) == 1


def test_selecting_by_a_metric_that_is_not_computed_is_refused():
    with pytest.raises(UsageError, match="'hit@1' cannot select"):
        plan(GRID[0], select="hit@1")


def test_selecting_by_a_metric_that_only_describes_is_refused():
    with pytest.raises(UsageError, match="describes lists"):
        plan(GRID[0], metrics=[*METRICS, parse_metric("gini@5")], select="gini@5")


def given_parts(**settings) -> dict:
    """A plan on data that came as train and test: the chosen model is fitted on all of train."""
    data = toys.two_tastes()
    part = np.where(np.arange(len(data)) % 5 == 0, PARTS.index("test"), PARTS.index("train"))
    data = replace(data, part=part.astype(np.int8))
    return {"dataset": data, "rule": Given(**settings), "metrics": METRICS, "select": "ndcg@10"}


@pytest.mark.parametrize("refit", [True, False])
def test_a_split_that_returns_validation_to_training_refits(tmp_path, refit):
    worker = Worker(Plan(models=GRID, **given_parts(refit=refit)))
    jobs, work = [], worker.work
    worker.work = lambda job: jobs.append((job.part, len(job.trials))) or work(job)
    rows = Runner(worker, Campaign(tmp_path)).run()
    assert jobs.count(("test", 1)) == refit
    assert sum(row.part == "test" for row in rows) == 1


def test_where_nothing_is_chosen_validation_takes_no_fit(tmp_path):
    """Of one model there are three settings, of the other one, once for each of two seeds."""

    def fitted(folder: str, models, **settings) -> list[tuple[str, int]]:
        worker = Worker(Plan(models=models, **given_parts(), **settings))
        jobs, work = [], worker.work
        worker.work = lambda job: jobs.append((job.part, len(job.trials))) or work(job)
        rows = Runner(worker, Campaign(tmp_path / folder)).run()
        assert all(row.status == "ok" for row in rows)
        return jobs

    lone = als.Ials.of(factors=2, iterations=2)
    both = {"seeds": (0, 1), "spare": True}
    assert fitted("a", [*GRID, lone], **both) == 3 * [("valid", 1)] + 3 * [("test", 1)]
    assert fitted("b", [*GRID, lone], seeds=(0, 1)) == 5 * [("valid", 1)] + 3 * [("test", 1)]
    assert fitted("a", [*GRID, lone], **both) == []
    # Among what was validated here there is a choice; a patient model asks when to stop.
    assert fitted("a", [lae.Ease(l2=7.0)], spare=True) == [("valid", 1), ("test", 1)]
    patient = als.Ials.of(factors=2, iterations=2, patience=1)
    assert fitted("c", [patient], spare=True) == [("valid", 1), ("test", 1)]


def test_models_of_one_setting_share_their_fit_with_a_winner(tmp_path):
    """The inverse for the test is that of `edlae`, too, which is not validated."""
    models = [*(lae.DeqlL2.of(b=b, p=0.5, l2_effective=5) for b in (0.5, 1)), lae.Edlae(0.5, 5)]
    worker = Worker(Plan(models=models, spare=True, **given_parts()))
    jobs, work = [], worker.work
    worker.work = lambda job: jobs.append((job.part, len(job.trials))) or work(job)
    Runner(worker, Campaign(tmp_path)).run()
    assert jobs == [("valid", 2), ("test", 2)]


def test_a_refit_makes_the_rounds_that_validation_chose(tmp_path):
    def rounds(**settings) -> dict[str, Row]:
        model = als.Ials.of(factors=8, l2=1e-4, iterations=40, tol=0.0, **settings)
        rows = Runner(Worker(Plan(models=[model], **given_parts())), Campaign(tmp_path)).run()
        return {row.part: row for row in rows}

    chosen = rounds(patience=2)
    assert 0 < chosen["valid"].rounds < 38
    assert chosen["test"].rounds == chosen["valid"].rounds
    assert chosen["test"].facts["sweeps"] == chosen["valid"].facts["sweeps"]
    assert chosen["valid"].validation_seconds > 0.0
    assert chosen["test"].validation_seconds == 0.0  # it trains on what it would be asked of
    plain = rounds()
    assert (plain["valid"].rounds, plain["test"].rounds) == (40, 40)


def test_a_refit_may_be_of_the_very_beginning(tmp_path):
    model = als.Ials.of(factors=1, alpha0=100.0, l2=1e9, iterations=9, tol=0.0, patience=1)
    rows = Runner(Worker(Plan(models=[model], **given_parts())), Campaign(tmp_path)).run()
    assert [row.rounds for row in rows] == [0, 0]
    assert [row.facts["sweeps"] for row in rows] == [0, 0]


def test_every_seed_is_refitted_for_the_rounds_of_its_own(tmp_path):
    model = als.Ials.of(factors=8, l2=1e-4, iterations=40, tol=0.0, patience=2)
    plan = Plan(models=[model], seeds=(0, 1, 2), **given_parts())
    rows = Runner(Worker(plan), Campaign(tmp_path)).run()
    valid, test = (
        {row.seed: row.rounds for row in rows if row.part == part} for part in ("valid", "test")
    )
    assert len(set(valid.values())) > 1
    assert test == valid


PULL = """
from dataclasses import dataclass

from recbench.plugin import LOSSES, QuadraticLoss


@LOSSES.register("pull")
@dataclass(frozen=True)
class Pull(QuadraticLoss):
    @property
    def objective(self):
        return LOSSES.get("ials")().objective
"""


@pytest.mark.parametrize("edited", [False, True])
def test_a_checkpoint_is_not_used_by_a_loss_that_was_edited(tmp_path, monkeypatch, edited):
    monkeypatch.setattr(checkpoint, "FIRST", 0.0)
    monkeypatch.setattr(checkpoint, "SHARE", np.inf)
    path, sweeps = tmp_path / "pull.py", []

    def progress(what, done, total):
        if what == "trials":
            return
        sweeps.append(done)
        if done == 4:
            raise KeyboardInterrupt

    def made() -> Runner:
        load_plugin(path)
        model = als.Als.of(loss="pull", factors=4, iterations=6, tol=0.0)
        return runner(tmp_path / "out", model, context=Context(progress=progress))

    path.write_text(PULL)
    with pytest.raises(KeyboardInterrupt):
        made().run()
    if edited:
        path.write_text(PULL + "# a change that may be one of the numbers\n")
    sweeps.clear()
    with pytest.raises(KeyboardInterrupt):
        made().run()
    assert sweeps == ([0, 1, 2, 3, 4] if edited else [4])


def test_a_finished_run_leaves_no_checkpoint_that_is_not_another_processes(tmp_path):
    made = runner(tmp_path, GRID[0], lae.Edlae())
    mine, other = (task.step for task in tasks_of(made.trials, "test"))
    for step in (mine, other, "0f"):
        (made.campaign.checkpoints / f"{step}-test-killed" / "fit").mkdir(parents=True)
    made.run()
    left = {path.name for path in made.campaign.checkpoints.iterdir()}
    assert left == {"0f-test-killed"}
    claim = made.campaign.claim(other)
    for step in (mine, other):
        (made.campaign.checkpoints / f"{step}-test-killed").mkdir()
    runner(tmp_path, GRID[0], lae.Edlae()).run()
    claim.release()
    left = {path.name for path in made.campaign.checkpoints.iterdir()}
    assert left == {"0f-test-killed", f"{other}-test-killed"}


def test_a_model_without_strangers_is_refused_before_its_fit(tmp_path):
    @dataclass(frozen=True)
    class Known(Model):
        name, trained_users_only = "known", True

        def fit(self, train, ctx):
            assert train.shape[0] == toys.two_tastes().n_users, "fitted"
            return Popularity().fit(train, ctx)

    strong = {row.text: row for row in runner(tmp_path / "s", Known(), Popularity()).run()}
    assert strong["known"].status == "skipped"
    assert "12 of the users to rank in validation are not in train" in strong["known"].reason
    assert strong["popularity"].status == "ok"
    weak = runner(tmp_path / "w", Known(), rule=Weak()).run()
    assert [row.status for row in weak] == ["ok", "ok"]
