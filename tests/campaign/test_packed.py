"""The executor of `-j auto`, its measurements and processes replaced but where the test is slow."""

from concurrent.futures import Future

import pytest

import toys
from recbench.campaign import packed
from recbench.campaign.executors import InProcess, Parcel, WorkerDied
from recbench.campaign.folder import Campaign
from recbench.campaign.needs import Needs
from recbench.campaign.packed import Packed
from recbench.campaign.packing import ENOUGH
from recbench.campaign.plan import Plan
from recbench.campaign.runner import Runner
from recbench.campaign.tasks import tasks_of
from recbench.campaign.worker import Job, Worker
from recbench.evaluate.metrics import parse_metric
from recbench.models.linear import lae
from recbench.splits.strong import Strong

GRID = tuple(lae.Ease(l2=float(value)) for value in range(1, 11))
GB = 10**9


def worker(*models) -> Worker:
    metric = parse_metric("ndcg@10")
    return Worker(Plan(toys.two_tastes(), Strong(), models, [metric], metric.text))


class Serial:
    """Stands for `Busy`: whatever is fitted took nine seconds of one core."""

    cores, seconds, looks, crowding = 1.0, 9.0, ENOUGH, 1.0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


class Whole(Serial):
    cores = 4.0


class Elsewhere:
    """Stands for `Processes`: gives an answer when it is told to."""

    def __init__(self, parcel, slots):
        self.jobs: list[tuple[Job, Future]] = []

    def submit(self, job):
        self.jobs.append((job, Future()))
        return self.jobs[-1][1]

    def heard(self):
        return ["heard"]

    def close(self, *, wait):
        pass


@pytest.fixture
def serial(monkeypatch):
    """A machine of four cores and 10 GB, where fits go on one of them."""
    monkeypatch.setattr(packed, "Busy", Serial)
    monkeypatch.setattr(packed, "Processes", Elsewhere)
    monkeypatch.setattr(packed, "free_memory", lambda: 10 * GB)
    monkeypatch.setattr(packed, "held_memory", lambda: GB // 10)


def started(made: Worker, alone: int, **options):
    """An executor that has fitted some groups alone, and the tasks that are left."""
    said = []
    executor = Packed(made, lambda: Parcel.of(made), 4, announce=said.append, **options)
    tasks = tasks_of(made.plan.trials, "valid")
    for _ in range(alone):
        assert executor.takes(tasks[0], tasks, 0)
        executor.submit(job(tasks.pop(0)))
    return executor, tasks, said


def job(task) -> Job:
    return Job(task.trials, "valid", needs=task.needs or Needs())


def test_two_fits_go_alone_and_then_there_is_company(serial):
    executor, tasks, said = started(worker(*GRID), 2)
    assert executor._elsewhere is None
    for running in range(4):
        assert executor.takes(tasks[0], tasks, running)
        executor.submit(job(tasks.pop(0)))
    assert not executor.takes(tasks[0], tasks, 4)
    assert [sent.threads for sent, _ in executor._elsewhere.jobs] == [1] * 4
    assert said == ["ease: 4 fits at a time, 1 thread each: a fit keeps 1.0 of 4 cores busy"]
    assert list(executor.heard()) == ["heard"]


def test_what_keeps_all_cores_busy_stays_alone_and_it_is_said(serial, monkeypatch):
    monkeypatch.setattr(packed, "Busy", Whole)
    executor, tasks, said = started(worker(*GRID), 4)
    assert executor._elsewhere is None
    assert not executor.takes(tasks[0], tasks, 1)
    assert said == ["ease: one fit at a time, 4 threads each: a fit keeps 4.0 of 4 cores busy"]


def test_each_model_is_measured_and_waits_for_the_others_to_end(serial):
    made = worker(*GRID[:6], *(lae.Edlae(l2=value) for value in (1.0, 2.0, 3.0)))
    executor, tasks, _ = started(made, 2)
    assert executor.takes(tasks[0], tasks, 0)
    executor.submit(job(tasks[0]))
    other = tasks[-1]
    assert other.name == "edlae"
    assert not executor.takes(other, tasks, 1)
    assert executor.takes(other, tasks, 0)


def test_a_group_that_needs_more_than_is_left_waits(serial):
    executor, tasks, _ = started(worker(*GRID), 2)
    for task in tasks:
        task.needs = Needs(4 * GB)
    assert executor.takes(tasks[0], tasks, 0)
    executor.submit(job(tasks.pop(0)))
    assert executor.takes(tasks[0], tasks, 1)
    executor.submit(job(tasks.pop(0)))
    tasks[0].needs = Needs(3 * GB)
    assert not executor.takes(tasks[0], tasks, 2)  # three of 4 GB would not be there
    executor._elsewhere.jobs[0][1].set_result([])
    assert executor.takes(tasks[0], tasks, 1)


def test_what_comes_out_slower_together_goes_alone_again(serial, monkeypatch):
    executor, tasks, said = started(worker(*GRID), 2)
    clock = iter(range(0, 10_000, 11))  # one ends every eleven seconds
    monkeypatch.setattr(packed.time, "monotonic", lambda: next(clock))
    tasks = tasks * 4
    for _ in range(9):
        assert executor.takes(tasks[0], tasks, 0)
        executor.submit(job(tasks.pop(0)))
        executor._elsewhere.jobs[-1][1].set_result([])
    assert not executor.takes(tasks[0], tasks, 1)
    assert executor.takes(tasks[0], tasks, 0)
    assert said[-1] == "ease: one fit at a time, 4 threads each: they came out slower together"
    assert len(executor._elsewhere.jobs) == 9
    executor.submit(job(tasks.pop(0)))
    assert len(executor._elsewhere.jobs) == 9


def test_what_a_process_died_of_is_not_let_into_this_one(serial):
    executor, tasks, _ = started(worker(*GRID), 2)
    assert executor.takes(tasks[0], tasks, 0)
    pending = executor.submit(job(tasks[0]))
    executor._elsewhere.jobs[0][1].set_exception(WorkerDied("killed by SIGKILL"))
    with pytest.raises(WorkerDied):
        pending.result(1)
    assert not executor.takes(tasks[0], tasks, 1)
    assert executor.takes(tasks[0], tasks, 0)
    executor.submit(job(tasks[0]))
    assert len(executor._elsewhere.jobs) == 2
    assert executor._elsewhere.jobs[1][0].threads is None  # alone it has all of them


def test_a_group_may_lose_the_model_that_it_was_called_by(serial):
    made = worker(*GRID[:1], lae.Edlae())
    executor = Packed(made, lambda: Parcel.of(made), 4)
    first, second = tasks_of(made.plan.trials, "valid")
    first.trials += second.trials
    assert executor.takes(first, [first], 0)
    del first.trials[0]  # its time is over, or another run has finished it
    outcome, *_ = executor.submit(job(first)).result(1)
    assert outcome.row.model == "edlae"
    assert len(executor._known["ease"].alone) == 1


def test_models_of_an_extra_have_as_much_company_as_there_are_devices(serial, monkeypatch):
    made = worker(*GRID)
    monkeypatch.setattr(lae.Ease, "extra", "torch")
    executor, tasks, said = started(made, 2)
    assert not executor.takes(tasks[0], tasks, 1)
    assert said == ["ease: one fit at a time, 4 threads each: there is one device for it"]
    made.devices = ("cuda:0", "cuda:1")
    executor, tasks, said = started(made, 2)
    assert executor.takes(tasks[0], tasks, 0)
    assert said[0].startswith("ease: 2 fits at a time")


def test_a_fit_that_failed_tells_nothing(serial, monkeypatch):
    made = worker(*GRID)
    lost, answer = made.lost(made.plan.trials[0], "valid", ValueError()), Future()
    answer.set_result([lost])
    monkeypatch.setattr(InProcess, "submit", lambda self, job: answer)
    executor, _, _ = started(made, 3)
    assert executor._known["ease"].alone == []


@pytest.mark.slow
def test_the_table_is_that_of_one_process(tmp_path, monkeypatch):
    monkeypatch.setattr(packed, "Busy", Serial)
    made = worker(*GRID)
    Runner(made, Campaign(tmp_path / "one"), InProcess(made)).run()
    said = []
    executor = Packed(made, lambda: Parcel.of(made), 2, announce=said.append)
    Runner(made, Campaign(tmp_path / "two"), executor).run()
    assert said[0].startswith("ease: 2 fits at a time, 1 thread each")
    tables = [(tmp_path / name / "metrics.csv").read_bytes() for name in ("one", "two")]
    assert tables[0] == tables[1]
