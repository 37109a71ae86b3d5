"""Traces: how fits went, kept beside their results and drawn in the report."""

import csv
from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import toys
from recbench.campaign import traces
from recbench.campaign import worker as work
from recbench.campaign.executors import Parcel
from recbench.campaign.folder import Campaign
from recbench.campaign.plan import Plan
from recbench.campaign.runner import Runner
from recbench.campaign.worker import Worker
from recbench.errors import DataError
from recbench.evaluate.metrics import parse_metric
from recbench.models.context import Context
from recbench.models.factors.als import Ials, Rg2
from recbench.models.popularity import Popularity
from recbench.registry import MODELS, build
from recbench.report.html import charts, convergence
from recbench.report.html.convergence import section
from recbench.report.html.page import page
from recbench.splits.strong import Strong

METRICS = [parse_metric("ndcg@10"), parse_metric("recall@5")]
FEW = Ials.of(factors=3, iterations=4, tol=0.0)


def runner(folder, *models, trace=True, **changes) -> Runner:
    plan = Plan(toys.two_tastes(), Strong(), models, METRICS, "ndcg@10", **changes)
    return Runner(Worker(plan, Context(), trace=trace), Campaign(folder))


def files(folder):
    return sorted((folder / "traces").glob("*"))


def test_every_round_of_a_fit_is_kept_with_every_metric(tmp_path):
    rows = runner(tmp_path, FEW).run()
    (row,) = [row for row in rows if row.part == "valid"]
    rounds = traces.read(traces.path_of(tmp_path, row.trial))
    assert list(rounds[0]) == ["sweep", "seconds", "objective", "ndcg@10", "recall@5"]
    assert [entry["sweep"] for entry in rounds] == [0, 1, 2, 3, 4]
    assert {name: rounds[-1][name] for name in row.metrics} == row.metrics
    assert rounds[-1]["ndcg@10"] > rounds[0]["ndcg@10"]


def test_all_but_the_clock_repeats(tmp_path):
    def written(folder):
        runner(folder, FEW, Rg2.of(factors=3)).run()
        lines = [list(csv.reader(path.read_text().splitlines())) for path in files(folder)]
        return [[[*line[:1], *line[2:]] for line in some] for some in lines]

    assert written(tmp_path / "a") == written(tmp_path / "b")
    assert len(files(tmp_path / "a")) == 2


def test_no_trace_is_kept_unless_asked_for(tmp_path):
    plain = {(row.text, row.part): row.metrics for row in runner(tmp_path, FEW, trace=False).run()}
    assert not (tmp_path / "traces").exists()
    asked = runner(tmp_path, FEW).run()  # finished, but without what is now asked for
    assert len(files(tmp_path)) == 1
    assert {(row.text, row.part): row.metrics for row in asked} == plain


def test_a_finished_trace_is_not_made_again(tmp_path):
    runner(tmp_path, FEW, Popularity()).run()
    (path,) = files(tmp_path)
    before = path.read_bytes(), (tmp_path / "trials.jsonl").read_bytes()
    runner(tmp_path, FEW, Popularity()).run()  # which has no rounds, and is not fitted again either
    assert (path.read_bytes(), (tmp_path / "trials.jsonl").read_bytes()) == before


def test_a_trial_counts_only_once_its_trace_is_whole(tmp_path, monkeypatch):
    def cut(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Campaign, "record", cut)
    with pytest.raises(KeyboardInterrupt):
        runner(tmp_path, FEW).run()
    assert len(files(tmp_path)) == 1
    assert Campaign(tmp_path).rows() == {}


def test_early_stopping_and_a_trace_share_one_measurement(tmp_path, monkeypatch):
    times = []
    real = work.evaluate
    monkeypatch.setattr(work, "evaluate", lambda *a, **k: times.append(a[1]) or real(*a, **k))
    runner(tmp_path, Ials.of(factors=3, iterations=4, tol=0.0, patience=9)).run()
    (path,) = files(tmp_path)
    rounds = traces.read(path)
    assert len(times) == len(rounds) + 2  # and the final one on validation, and on test
    assert all(entry["validation"] == entry["ndcg@10"] for entry in rounds)


def test_fit_seconds_leave_out_what_the_trace_takes(tmp_path, monkeypatch):
    clock = [0.0]
    real = work.evaluate

    def slow(*arguments):
        clock[0] += 100.0
        return real(*arguments)

    monkeypatch.setattr(work, "evaluate", slow)
    monkeypatch.setattr(work, "CLOCK", SimpleNamespace(now=lambda: clock[0], stood=0.0))
    for row in runner(tmp_path, FEW).run():
        assert row.fit_seconds == 0.0


def test_the_wish_travels_to_other_processes(tmp_path):
    assert Parcel.of(runner(tmp_path, FEW).worker).open().trace


def test_every_seed_is_a_trial_with_a_trace_of_its_own(folder, recbench, own):
    words = ["run", *own, "-q", "-m", "ials", "-m", "rg2-svd", "--set", "factors=3"]
    result = recbench(*words, "--seed", "0,1,2", "--trace", "-o", "out")
    assert result.exit_code == 0, result.output
    rows = [row for row in Campaign(folder / "out").rows().values() if row.part == "test"]
    assert sorted((row.model, row.seed) for row in rows) == [
        ("ials", 0), ("ials", 1), ("ials", 2), ("rg2-svd", 0),
    ]  # fmt: skip
    assert len({row.metrics["ndcg@100"] for row in rows}) == 4
    assert len(files(folder / "out")) == 4
    report = recbench("report", "out")
    assert report.exit_code == 0
    text = (folder / "out" / "report.html").read_text()
    assert "Convergence" in text
    assert "ials seed 1" in text


def test_the_report_draws_the_selected_and_then_the_best(tmp_path):
    campaign = Campaign(tmp_path)
    campaign.create()
    for number in range(12):
        row = toys.trial(number, number / 100, parameters={"l2": float(number)})
        campaign.record(row)
        traces.write(
            traces.path_of(tmp_path, row.trial),
            [{"seconds": n, "objective": -n, "ndcg@20": n / 9} for n in (1, 2)],
        )
    campaign.record(toys.trial(12, 0.5, parameters={"l2": 12.0}))  # the best has no trace
    text = section(campaign, list(campaign.rows().values()), "ndcg@20")
    assert "ease l2=11:" in text
    assert "ease l2=4:" in text
    assert "ease l2=3:" not in text  # there are as many curves as colours
    assert "ease l2=12" not in text
    assert "ndcg@20 by seconds" in text


def test_without_traces_the_report_says_nothing_of_them(tmp_path):
    campaign = Campaign(tmp_path)
    campaign.create()
    campaign.record(toys.trial(1, 0.1))
    assert "Convergence" not in page(campaign, "ndcg@20")


names = st.sampled_from(["sweep", "seconds", "objective", "ndcg@10"])
numbers = st.floats(allow_nan=False) | st.integers(-(10**6), 10**6)


@given(st.lists(st.dictionaries(names, numbers, min_size=1)))
@settings(max_examples=25, deadline=None)
def test_what_is_written_reads_back(tmp_path_factory, rounds):
    path = traces.path_of(tmp_path_factory.mktemp("traces"), "t1")
    traces.write(path, rounds)
    assert traces.read(path) == rounds


def test_no_trace_is_no_rounds_and_a_damaged_one_is_a_sentence(tmp_path):
    path = traces.path_of(tmp_path, "t1")
    assert traces.read(path) == []
    path.parent.mkdir()
    path.write_text("sweep,objective\n0,zero\n")
    with pytest.raises(DataError, match=r"t1.csv cannot be read .* remove it"):
        traces.read(path)


def test_a_folder_that_cannot_be_written_is_a_sentence(tmp_path):
    (tmp_path / "traces").write_text("a file")
    with pytest.raises(DataError, match="cannot be written"):
        traces.write(traces.path_of(tmp_path, "t1"), [{"sweep": 0}])


def test_models_that_minimise_the_same_are_drawn_from_the_least_that_any_came_to(tmp_path):
    rg2 = Rg2.of(factors=3, iterations=2, tol=0.0)
    newton, slow = (
        build(f"{text},factors=3]", MODELS)
        for text in ("newton[iterations=6", "mf[loss=rg2,epochs=3,batch=500,decay-at=never")
    )
    assert len({model.goal for model in (rg2, newton, slow)}) == 1
    fitted = runner(tmp_path, rg2, newton, slow, FEW)
    fitted.run()
    drawings = convergence.figures(Campaign(tmp_path), fitted.campaign.rows().values(), "ndcg@10")
    assert [figure.name for figure in drawings] == [
        "convergence-ndcg@10-seconds", "convergence-ndcg@10-round",
        "convergence-objective-above-the-least-seconds",
        "convergence-objective-above-the-least-round",
    ]  # fmt: skip
    for figure in drawings:
        assert set(figure.chart.names) == {"rg2", "newton", "mf", "ials"}
    lines = [(name, y) for name, _, _, y in drawings[-1].chart.data.lines]
    far = {model: min(y for name, y in lines if name == model) for model, _ in lines}
    assert far["newton"] < far["rg2"] < far["mf"] < 1
    assert len([name for name, _ in lines if name == "ials"]) == 4, "the last one is the least"


def test_a_trial_of_a_model_that_is_not_known_here_has_a_goal_of_its_own(tmp_path):
    campaign = Campaign(tmp_path)
    campaign.create()
    for number, text in enumerate(("gone[x=1]", "gone[x=2]")):
        row = toys.trial(number, 0.5, model="gone", parameters={"x": number})
        row = replace(row, text=text)
        campaign.record(row)
        trace = [{"seconds": 1.0, "loss": 3.0 + number}, {"seconds": 2.0, "loss": 1.0 + number}]
        traces.write(traces.path_of(tmp_path, row.trial), trace)
    *_, figure = convergence.figures(campaign, list(campaign.rows().values()), "ndcg@20")
    assert [y for *_, y in figure.chart.data.lines] == [2.0, 1.0]


def test_the_loss_of_steps_does_not_stand_among_objectives():
    rounds = [{"loss": 3.0}, {"loss": 2.0, "objective": 40.0}, {"loss": 1.0, "objective": 20.0}]
    assert convergence.least_of([("a", rounds), ("a", rounds[:2]), ("b", rounds[:1])]) == {
        "a": 20.0, "b": 3.0,
    }  # fmt: skip
    far = [entry.get(convergence.ABOVE) for entry in convergence.with_distance(rounds, 20.0)]
    assert far == [None, 1.0, None]


def test_a_long_line_is_whole_and_marked_here_and_there():
    points = [(float(n), 1 / n, "") for n in range(1, 1001)]
    chart = charts.lines({"a": points}, "x", "y", log_y=True)
    assert chart.content.count("<circle") == charts.MARKS
    assert chart.content.count("L") >= 999
    assert len(chart.data.lines) == 1000
