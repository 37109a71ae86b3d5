"""The executor on a cluster that does as it is told; test_dask.py has real ones."""

import pickle
import threading
from concurrent.futures import Future
from dataclasses import dataclass, field

import pytest

import toys
from recbench.campaign.cluster import executor
from recbench.campaign.cluster.cargo import Unfit
from recbench.campaign.cluster.executor import Cluster
from recbench.campaign.cluster.link import Lost
from recbench.campaign.cluster.there import Greeting, Room
from recbench.campaign.executors import InProcess, Parcel, WorkerDied
from recbench.campaign.folder import Campaign
from recbench.campaign.needs import Needs
from recbench.campaign.plan import Plan
from recbench.campaign.runner import Runner
from recbench.campaign.worker import Job, Worker
from recbench.environment import describe, version
from recbench.errors import DataError, UsageError
from recbench.evaluate.metrics import parse_metric
from recbench.models.linear import lae
from recbench.splits.strong import Strong

GRID = tuple(lae.Ease(l2=value) for value in (0.1, 1.0, 10.0, 100.0))
SECONDS = 20.0
HERE = describe()


def worker(*models) -> Worker:
    metric = parse_metric("ndcg@10")
    return Worker(Plan(toys.two_tastes(), Strong(), models, [metric], metric.text))


@dataclass
class Hand:
    """One worker of the cluster, and what it does when it is asked."""

    machine: str = "m"
    memory: int = 10**9
    environment: dict = field(default_factory=lambda: HERE)
    extras: dict = field(default_factory=dict)
    deaf: tuple = ()
    """What it never answers."""
    fails: Exception | None = None
    """What comes of its fits."""
    has_cargo: bool = True
    got: bytes = b""


class Village:
    """A cluster in this process."""

    def __init__(self, made: Worker, **hands: Hand) -> None:
        self.made, self.hands, self.here = made, hands, True
        self.asked: list[tuple[str, str]] = []
        self.wanted: list[int] = []
        self.terms: dict[str, int] = {}
        self.unanswered: dict[str, Future] = {}
        self.heard = None

    def connect(self, topic, heard):
        if not self.here:
            raise UsageError("no Dask scheduler answers")
        self.heard = heard
        return self

    def workers(self):
        if not self.here:
            raise Lost
        return {name: f"{name}'s folder" for name in self.hands}

    def want(self, number):
        self.wanted.append(number)

    def close(self):
        self.closed = True

    def ask(self, address, function, *words, then):
        self.asked.append((address, function.__name__))
        answer: Future = Future()
        hand = self.hands[address]
        if function.__name__ in hand.deaf:
            self.unanswered[address] = answer
            return answer
        try:
            answer.set_result(getattr(self, function.__name__)(address, hand, *words))
        except Exception as error:  # noqa: BLE001 - as a task would
            answer.set_exception(error)
        then(answer)
        return answer

    def greet(self, address, hand, cargo, packages):
        found = {name: hand.extras.get(name) for name in packages}
        environment = {**hand.environment, "packages": hand.environment["packages"] | found}
        return Greeting(hand.machine, "store", environment, hand.has_cargo)

    def take(self, address, hand, cargo, start, piece):
        assert start == len(hand.got)
        hand.got += piece

    def open_up(self, address, hand, cargo):
        return Room(hand.memory, hand.memory, disk=0)

    def fit(self, address, hand, cargo, job, terms):
        if hand.fails is not None:
            raise hand.fails
        self.terms[address] = terms.number
        return self.made.work(pickle.loads(job)), 0

    def forget(self, address, hand, cargo):
        for mate in self.hands.values():
            mate.got = b"" if mate.machine == hand.machine else mate.got


@pytest.fixture
def start(monkeypatch):
    """Make executors, and see that each is closed."""
    monkeypatch.setattr(executor, "LOOK", 0.01)
    started = []

    def make(village: Village, **options) -> Cluster:
        made = Cluster(Parcel.of(village.made), village.connect, **options)
        started.append(made)
        return made

    yield make
    for one in started:
        one.close(wait=False)
    assert not [t for t in threading.enumerate() if t in [one._thread for one in started]]


def job(made: Worker, number: int = 0, memory: int | None = None) -> Job:
    return Job([made.plan.trials[number]], "valid", needs=Needs(memory))


def wait_for(condition) -> None:
    until = threading.Event()
    for _ in range(int(SECONDS / 0.01)):
        if condition():
            return
        until.wait(0.01)
    raise AssertionError("it never came to that")


def test_a_worker_that_is_lost_costs_its_group_a_new_beginning(start, tmp_path):
    made = worker(*GRID)
    Runner(made, Campaign(tmp_path / "one"), InProcess(made)).run()
    village, said = Village(made, a=Hand(deaf=("fit",)), b=Hand()), []
    cluster = start(village, announce=said.append)
    run = Runner(made, Campaign(tmp_path / "two"), cluster)
    thread = threading.Thread(target=run.run)
    thread.start()
    wait_for(lambda: ("a", "fit") in village.asked)
    del village.hands["a"]
    thread.join(SECONDS)
    tables = [(tmp_path / name / "metrics.csv").read_bytes() for name in ("one", "two")]
    assert tables[0] == tables[1]
    assert any("worker a was lost while it was at ease" in text for text in said)
    assert village.unanswered["a"].cancelled()  # else Dask has it done if one comes at its address
    (crew,) = Campaign(tmp_path / "two").manifest()["runs"][0]["crew"]
    assert crew["workers"] == ["a", "b"]


def test_a_group_that_loses_every_worker_is_to_blame(start):
    made = worker(lae.Ease())
    village = Village(made, w0=Hand(deaf=("fit",)))
    pending = start(village).submit(job(made))
    for number in range(executor.TRIES):
        wait_for(lambda number=number: (f"w{number}", "fit") in village.asked)
        village.hands = {f"w{number + 1}": Hand(deaf=("fit",))}
    with pytest.raises(WorkerDied, match="3 workers were lost"):
        pending.result(SECONDS)


def test_a_large_group_waits_for_a_worker_that_has_room(start):
    made, said = worker(*GRID), []
    village = Village(made, small=Hand(memory=100))
    cluster = start(village, announce=said.append)
    large, little = cluster.submit(job(made, 0, 200)), cluster.submit(job(made, 1, 50))
    little.result(SECONDS)
    wait_for(lambda: village.wanted[-1] == 1)  # a cluster that can grow is told
    assert not large.done()
    assert any("needs 0.0 GB of memory, and no worker has more" in text for text in said)
    village.hands["large"] = Hand("n", memory=200)
    large.result(SECONDS)
    assert village.asked[-1] == ("large", "fit")


def test_or_is_refused_after_a_while(start, tmp_path):
    made = worker(lae.Ease())
    village = Village(made, small=Hand(memory=100))
    rows = Runner(made, Campaign(tmp_path), start(village, patience=0.0)).run()
    assert [row.status for row in rows] == ["skipped"]
    assert rows[0].reason.endswith("no worker has more than 0.0 GB")


def test_a_cluster_without_workers_says_so_and_waits(start):
    made, said = worker(lae.Ease()), []
    village = Village(made)
    pending = start(village, announce=said.append).submit(job(made))
    wait_for(lambda: village.wanted and village.wanted[-1] == 1)
    assert said == ["the cluster has no workers: waiting for the first"]
    village.hands["first"] = Hand()
    assert pending.result(SECONDS)
    wait_for(lambda: said[1:] == ["1 worker ready, on 1 machine"])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"code": "x"}, "it has another recbench"),
        ({"python": "3.1.4"}, "it has Python 3.1.4"),
        ({"packages": HERE["packages"] | {"numpy": "1.0"}}, "it has numpy 1.0, here it is"),
    ],
)
def test_versions_are_compared_before_there_is_work(start, change, words):
    made, said = worker(lae.Ease()), []
    other = Hand("elsewhere", environment={**HERE, **change})
    village = Village(made, other=other, same=Hand(deaf=("greet",)))
    pending = start(village, announce=said.append).submit(job(made))
    wait_for(lambda: said)
    assert said[0].startswith(f"a worker on elsewhere takes no part: {words}")
    village.hands["same"] = Hand()
    village.hands = {"other": other, "again": Hand()}
    assert pending.result(SECONDS)
    assert {address for address, what in village.asked if what == "fit"} == {"again"}


def test_what_the_models_need_beside_is_compared_too(start):
    made, said = worker(lae.Ease()), []
    has = {"pytest": version("pytest")}
    village = Village(made, lacks=Hand("bare"), has=Hand("fit", extras=has))
    pending = start(village, extras=["pytest"], announce=said.append).submit(job(made))
    assert pending.result(SECONDS)
    assert said[0].startswith("a worker on bare takes no part: it has no pytest, here it is ")
    assert {address for address, what in village.asked if what == "fit"} == {"has"}


def test_a_cluster_of_which_nobody_can_take_part_ends_the_run(start):
    made = worker(lae.Ease())
    village = Village(made, other=Hand(environment={**HERE, "python": "3.1.4"}))
    cluster = start(village)
    with pytest.raises(DataError, match="no worker of the cluster can take part"):
        cluster.submit(job(made)).result(SECONDS)
    with pytest.raises(DataError, match="no worker of the cluster can take part"):
        cluster.submit(job(made)).result(SECONDS)  # and whoever comes later hears it, too


def test_data_are_sent_to_a_machine_once_and_piece_by_piece(start, monkeypatch):
    made = worker(*GRID)
    content = Parcel.of(made).pickled
    monkeypatch.setattr(executor, "PIECE", len(content) // 3 + 1)
    hands = {name: Hand(name[0], has_cargo=False) for name in ("a1", "a2", "b1")}
    village = Village(made, **hands)
    cluster = start(village)
    for pending in [cluster.submit(job(made, number)) for number in range(4)]:
        pending.result(SECONDS)
    wait_for(lambda: len(cluster._places) == 3)
    sent = dict(cluster.sent)
    assert sorted(sent.values()) == [len(content)] * 2
    assert {address[0] for address in sent} == {"a", "b"}
    assert [hands[address].got for address in sent] == [content] * 2
    assert village.asked.count(("b1", "take")) == 3
    cluster.close(wait=True)
    assert [hands[address].got for address in sent] == [b""] * 2


def test_they_are_removed_too_where_the_one_that_was_sent_them_has_left(start):
    made = worker(*GRID)
    village = Village(made, first=Hand(has_cargo=False), second=Hand())
    cluster = start(village)
    assert cluster.submit(job(made)).result(SECONDS)
    wait_for(lambda: len(cluster._places) == 2)
    assert set(cluster.sent) == {"first"}
    del village.hands["first"]
    wait_for(lambda: len(cluster._places) == 1)
    cluster.close(wait=True)
    assert village.asked[-1] == ("second", "forget")


def test_data_that_cannot_be_packed_end_the_run_and_nobody_waits(start, monkeypatch):
    def broken(*_):
        raise OSError("a plugin file is gone")

    monkeypatch.setattr(executor, "share", broken)
    made = worker(*GRID)
    cluster = start(Village(made, a=Hand()))
    for number in (0, 1):
        with pytest.raises(OSError, match="a plugin file is gone"):
            cluster.submit(job(made, number)).result(SECONDS)


def test_another_is_sent_them_if_the_first_is_lost_meanwhile(start):
    made = worker(lae.Ease())
    first = Hand(has_cargo=False, deaf=("take",))
    village = Village(made, first=first, second=Hand(has_cargo=False))
    pending = start(village).submit(job(made))
    wait_for(lambda: ("first", "take") in village.asked and ("second", "greet") in village.asked)
    assert ("second", "take") not in village.asked
    del village.hands["first"]
    assert pending.result(SECONDS)
    assert ("second", "take") in village.asked


def test_a_scheduler_that_comes_back_finds_the_groups_waiting(start):
    made, said = worker(*GRID), []
    village = Village(made, a=Hand(deaf=("fit",)))
    pending = start(village, announce=said.append).submit(job(made))
    wait_for(lambda: ("a", "fit") in village.asked)
    village.here = False
    wait_for(lambda: any("does not answer" in text for text in said))
    village.hands = {"a": Hand()}
    village.here = True
    assert pending.result(SECONDS)
    assert "the scheduler is back" in said


def test_one_that_does_not_ends_the_run(start):
    made = worker(lae.Ease())
    village = Village(made, a=Hand(deaf=("fit",)))
    pending = start(village, patience=0.0).submit(job(made))
    wait_for(lambda: ("a", "fit") in village.asked)
    village.here = False
    with pytest.raises(DataError, match="what is finished is kept"):
        pending.result(SECONDS)


def test_what_a_fit_raises_is_for_the_run_and_its_worker_goes_on(start):
    made = worker(*GRID)
    village = Village(made, a=Hand(fails=ZeroDivisionError("one is none")))
    cluster = start(village)
    with pytest.raises(ZeroDivisionError):
        cluster.submit(job(made)).result(SECONDS)
    village.hands["a"].fails = None
    assert cluster.submit(job(made, 1)).result(SECONDS)


def test_what_keeps_one_worker_from_fitting_does_not_keep_others(start):
    made, said = worker(lae.Ease()), []
    village = Village(made, a=Hand(memory=1, fails=Unfit("no plugin")), b=Hand(deaf=("open_up",)))
    pending = start(village, announce=said.append).submit(job(made))
    wait_for(lambda: ("a", "fit") in village.asked)
    village.hands = {"a": village.hands["a"], "c": Hand()}
    assert pending.result(SECONDS)
    assert "a worker on m takes no part: no plugin" in said


def test_workers_of_a_machine_have_numbers_of_their_own_and_blas_is_compared(start):
    made, said = worker(*GRID), []
    blas = [{"internal_api": "mkl", "version": "1", "architecture": "x", "num_threads": 1}]
    village = Village(made, a=Hand(), b=Hand(), c=Hand("n", environment={**HERE, "blas": blas}))
    cluster = start(village, announce=said.append)
    for number in range(4):
        cluster.submit(job(made, number)).result(SECONDS)
        wait_for(lambda: len(cluster._places) == 3)
    assert len(cluster.crew()) == 2
    assert any("mkl 1, x kernels" in text and "last digits" in text for text in said)


def test_what_workers_say_is_passed_on(start):
    made, said = worker(lae.Ease()), []
    village = Village(made, a=Hand())
    cluster = start(village, announce=said.append)
    village.heard(("progress", "steps [a]", 1, 3))
    village.heard(("log", "a: UserWarning: beware"))
    assert list(cluster.heard()) == [("steps [a]", 1, 3)]
    assert said == ["a: UserWarning: beware"]
