"""Workers of real Dask clusters that hold one inverse together."""

import gc
import json
import sys
import time
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from threading import Timer
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse

from recbench.campaign.cluster import holders as module
from recbench.campaign.cluster import holding
from recbench.campaign.cluster.cargo import Unfit
from recbench.campaign.cluster.holders import DaskHolders
from recbench.campaign.cluster.link import DaskLink, Lent
from recbench.campaign.request import Request
from recbench.environment import describe
from recbench.errors import DataError, Refused, UsageError
from recbench.linalg import topk
from recbench.linalg.gram import gram
from recbench.linalg.held.heldtiles import HeldTiles, Wanted
from recbench.linalg.held.holder import FAILED, Asked, Broken, Source, Taken
from recbench.linalg.tilefolder import TilesError
from recbench.linalg.tiles import Tiles
from villagers import ROOMY, Village

distributed = pytest.importorskip("distributed", reason="needs the extra 'dask'")
ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "bench"))

from cluster import Lab  # noqa: E402 - it is beside the tests, not in the package

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")
"""Dask leaves loops and sockets of lost schedulers to the garbage collector."""

N, SIDE, RIDGE = 300, 16, 5.0


@pytest.fixture(autouse=True)
def collected():
    """What is left behind is collected here, where it is known whose it is."""
    yield
    gc.collect()


def source(n: int = N) -> Source:
    matrix = sparse.random_array((2 * n, n), density=0.05, rng=np.random.default_rng(1))
    matrix.data[:] = 1
    return Source(sparse.csr_array(matrix, dtype=np.float32), RIDGE)


def wanted(n: int = N, side: int = SIDE) -> Wanted:
    return Wanted(source(n), n, "float32", side, "it")


def alone(n: int = N, side: int = SIDE) -> Tiles:
    tiles = Tiles.zeros(n, "float32", side)
    gram(source(n).matrix, tiles)
    tiles.add_diagonal(RIDGE)
    tiles.invert()
    return tiles


def connected(address: str, **more) -> DaskHolders:
    return DaskHolders(partial(DaskLink, address), **more)


def tiles_held(holders: DaskHolders) -> list[int]:
    """How many holders each worker has."""

    async def count(dask_worker=None) -> int:
        return len([at for at, _ in holding._HELD if at == dask_worker.address])

    link = holders.link
    return [link.beside(address, count).result() for address in link.workers()]


def test_workers_do_as_one_machine_and_forget_it_afterwards():
    told: list[tuple[int, int]] = []
    with distributed.LocalCluster(
        n_workers=3, threads_per_worker=1, processes=False, dashboard_address=":0"
    ) as cluster:
        holders = connected(cluster.scheduler_address)
        held = HeldTiles(wanted(), holders, progress=lambda *far: told.append(far))
        one, matrix = alone(), source().matrix
        assert np.array_equal(held.panel(0, N), one.panel(0, N))
        assert sum(held.received()) == 4 * N**2 * 2
        assert told == sorted(told)  # the last notes may come when nobody waits any more
        assert {total for _, total in told} == {3 * 19}
        (mine,) = held.rank(Asked(matrix, matrix, 5, [None]))
        (theirs,) = topk.top_of_product(matrix, one, matrix, 5)
        assert np.array_equal(mine.items, theirs.items)
        assert np.array_equal(mine.scores, theirs.scores)
        assert tiles_held(holders) == [1, 1, 1]
        del held
        gc.collect()
        until = time.monotonic() + 10
        while any(tiles_held(holders)) and time.monotonic() < until:
            time.sleep(0.02)
        assert tiles_held(holders) == [0, 0, 0]
        other = connected(cluster.scheduler_address)
        left = HeldTiles(wanted(), other)
        other.close()  # as if it was killed: nobody gives anything back
        while any(tiles_held(holders)) and time.monotonic() < until:
            time.sleep(0.02)
        assert tiles_held(holders) == [0, 0, 0]
        left._team = None
        holders.close()


def test_of_two_runs_one_waits_for_the_other(monkeypatch):
    monkeypatch.setattr(module, "LOOK", 0.05)
    said: list[str] = []
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0"
    ) as cluster:
        holders = connected(cluster.scheduler_address)
        other = connected(cluster.scheduler_address, announce=said.append)
        layout = wanted().layout(2)
        first, second = holders.members(bool), other.members(bool)  # both are there at once
        team = holders.team(first, layout)
        with pytest.raises(Taken, match="has tiles of another run"):
            other.team(second, layout)
        team.bring(source())  # and is not used
        store = Path(next(iter(holders.attending.values())).store)
        assert len([*store.glob(f"{holders.topic}-*/*.cargo")]) == 1
        Timer(0.5, team.close).start()
        HeldTiles(wanted(), other).close()
        assert "2 workers have tiles of another run: waiting" in said
        assert not [*store.glob(f"{holders.topic}-*")]
        other.close()
        holders.close()


@pytest.mark.slow
@pytest.mark.parametrize("folder", [True, False])
def test_a_killed_worker_changes_no_byte(tmp_path, folder, monkeypatch):
    monkeypatch.setattr(module, "RETURN", 1.0)
    n, said, swept = 640, [], []
    lab = Lab(tmp_path, 4)
    try:
        holders = connected(lab.address, announce=said.append)
        while len(holders.link.workers()) < 4:
            time.sleep(0.1)
        HeldTiles(wanted(), holders).close()  # all is compiled

        def kill_one(done: int, total: int) -> None:
            swept.append(done)
            if done >= total // 2 and lab.workers[1].poll() is None:
                lab.workers[1].kill()

        where = tmp_path / "tiles" if folder else None
        held = HeldTiles(wanted(n, 64), holders, where, kill_one)
        one = alone(n, 64)
        assert np.array_equal(held.panel(0, n), one.panel(0, n))
        assert held._layout.holders == 3
        again = "goes on from the tiles that were kept last" if folder else "begins anew"
        (words,) = (text for text in said if not text.startswith("spread: "))
        assert "was lost: the inverse of 640 items" in words
        assert again in words
        if folder:  # the scoring, too: what was kept is the whole inverse
            Timer(0.0, lab.workers[2].kill).start()
            matrix = source(n).matrix
            (mine,) = held.rank(Asked(matrix, matrix, 5, [None]))
            (theirs,) = topk.top_of_product(matrix, one, matrix, 5)
            assert np.array_equal(mine.items, theirs.items)
            assert np.array_equal(mine.scores, theirs.scores)
        del held
        holders.close()
    finally:
        lab.close()


@pytest.mark.slow
def test_the_command_line_gives_the_same_table_wherever_the_inverse_is(recbench, folder):
    words = [
        "-d",
        "synthetic:users=900,items=400,interactions=20000",
        "-m",
        "ease",
        "-m",
        "edlae",
        "--tiles-on-disk",
    ]
    assert recbench("run", *words, "here", "-o", "one").exit_code == 0
    with distributed.LocalCluster(
        n_workers=3, threads_per_worker=1, dashboard_address=":0", host="127.0.0.1"
    ) as cluster:
        words += ["there", "-o", "many", "--spread", "--executor", "dask", "--scheduler"]
        words += [cluster.scheduler_address]
        dry = recbench("run", *words, "--dry-run")
        done = recbench("run", *words)
    assert "spread: 400 items in 2 rows of tiles, on 2 workers in a grid of 1 x 2" in dry.stdout
    assert "a worker that is lost costs at most 1 of them" in dry.stdout
    assert done.exit_code == 0, done.output
    tables = [Path(name, "metrics.csv").read_bytes() for name in ("one", "many")]
    assert tables[0] == tables[1]
    assert json.loads(Path("many/manifest.json").read_text())["runs"][-1]["crew"][0]["workers"]


def test_a_dry_run_says_what_would_be_skipped(recbench, folder, monkeypatch):
    monkeypatch.setattr(Request, "_holders", lambda self: Village([ROOMY]))
    many, few = ("synthetic:users=900,items=400", "synthetic:users=100,items=400")
    words = ["-m", "ease[l2=9]", "--dry-run", "--spread", "--executor", "dask", "--scheduler", "x"]
    done = recbench("run", "-d", f"{many},interactions=20000", *words)
    assert "spread: 400 items in 2 rows of tiles, on 1 worker" in done.stdout
    assert "skipped" not in done.stdout
    done = recbench("run", "-d", f"{few},interactions=4000", *words)
    assert "would be skipped: its 80 users are inverted here" in done.stdout
    assert "spread: " not in done.stdout
    assert "memory: " not in done.stdout


def attending() -> holding.Attendance:
    return holding.Attendance("m", "store", describe(), 10**9, 10**9)


@pytest.fixture(scope="module")
def attendance():
    return attending()


class Answers:
    """A link to workers that answer as told."""

    def __init__(self, **hands) -> None:
        self.hands = hands
        self.taken: set[str] = set()

    def workers(self):
        return {name: name for name in self.hands}

    def ask(self, address, function, *words, then):
        answer: Future = Future()
        hand = self.hands[address]
        if hand is None:
            return answer
        if not isinstance(hand, Exception):
            answer.set_result(hand)
        elif function is holding.attend:
            answer.set_result(attending())
        elif function is holding.call:
            answer.set_exception(hand)
        else:
            answer.set_result(None)
        return answer

    def beside(self, address, function, *words):
        answer: Future = Future()
        answer.set_result(address in self.taken)
        return answer

    def lend(self, address, kind, *words):
        made: Future = Future()
        made.set_result(None)
        return Lent(None, made)


def village(said, **hands) -> DaskHolders:
    return DaskHolders(lambda *_: Answers(**hands), announce=said.append, patience=0.0)


def test_who_would_make_other_numbers_takes_no_part(attendance):
    said: list[str] = []
    other = dict(attendance.environment, code="another")
    old = holding.Attendance("oldie", "store", other, 10**12, 10**12)
    holders = village(said, a=attendance, b=old)
    assert [member.name for member in holders.members(bool)] == ["a"]
    (words,) = said
    assert words.startswith("a worker on oldie takes no part: it has another recbench")


def test_who_is_at_something_else_is_not_waited_for(attendance, monkeypatch):
    monkeypatch.setattr(module, "BUSY", 0.01)
    said: list[str] = []
    holders = village(said, a=None, b=attendance)
    assert [member.name for member in holders.members(bool)] == ["b"]
    assert said == ["worker a is at something else: it is not waited for"]
    holders.link.hands["a"] = attendance
    assert [member.name for member in holders.members(bool)] == ["a", "b"]
    holders.link.hands["a"] = None  # once more, as a worker that is known by now
    assert [member.name for member in holders.members(bool)] == ["b"]
    holders.link.hands["a"] = attendance
    assert [member.name for member in holders.members(bool)] == ["a", "b"]


def test_workers_of_another_run_are_waited_for_however_long(attendance, monkeypatch):
    monkeypatch.setattr(module, "LOOK", 0.0)
    said: list[str] = []
    holders = village(said, a=attendance, b=attendance)
    assert len(holders.members(bool)) == 2
    holders.link.taken = {"a", "b"}
    left = iter(["b", "a"])

    def both(members) -> bool:
        if len(members) < 2:  # and there is no patience at all
            holders.link.taken.remove(next(left))
        return len(members) == 2

    assert [member.name for member in holders.members(both)] == ["a", "b"]
    assert said == [
        "2 workers have tiles of another run: waiting",
        "1 worker has tiles of another run: waiting",
    ]


def test_without_workers_somebody_says_what_is_waited_for():
    said: list[str] = []
    with pytest.raises(Refused, match="and there are none; start more workers"):
        HeldTiles(wanted(), village(said))
    assert said[0] == "there is no worker: waiting for more of them"


def test_workers_of_one_machine_share_its_memory(attendance):
    holders = village([], a=attendance, b=attendance)
    assert [member.memory for member in holders.members(bool)] == [5 * 10**8] * 2


def test_a_cluster_without_room_is_refused_once_nobody_comes(attendance):
    said: list[str] = []
    large = Wanted(source(), 400_000, "float32", 1024)
    with pytest.raises(Refused, match=r"inverse of 400,000 items needs \d+\.\d\d GB on each of 1"):
        HeldTiles(large, village(said, a=attendance))
    assert said[:1] == ["the workers have no room for the inverse: waiting for more of them"]


def test_others_than_those_who_are_too_small_are_waited_for_once(attendance, monkeypatch):
    slept: list[float] = []
    clock = SimpleNamespace(monotonic=lambda: sum(slept), sleep=slept.append)
    monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(module, "BUSY", 0.01)
    holders = DaskHolders(lambda *_: Answers(a=attendance, b=None), patience=1.0)

    def looks() -> int:
        seen: list[int] = []
        holders.members(lambda members: bool(seen.append(len(members))))
        return len(seen)

    assert looks() > 1
    assert looks() == 1  # for the next model
    holders.link.hands["b"] = attendance
    assert looks() > 1


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (Unfit("the data cannot be kept in /s (No space left on device)"), DataError),
        (TilesError("cannot write /s/tile (No space left on device); make room"), TilesError),
    ],
)
def test_no_space_on_a_disk_is_a_sentence(error, kind):
    with pytest.raises(kind, match="No space left on device"):
        HeldTiles(wanted(), village([], a=error))


def test_what_a_worker_fails_with_is_told(attendance, monkeypatch):
    monkeypatch.setattr(module, "GONE", 0.0)
    with pytest.raises(DataError, match=r"a worker failed \(MemoryError: no room\)"):
        HeldTiles(wanted(), village([], a=MemoryError("no room")))


def test_so_is_what_the_first_one_fails_with_if_others_only_waited(monkeypatch):
    monkeypatch.setattr(module, "GONE", 0.0)
    with pytest.raises(DataError, match=r"a worker failed \(MemoryError: no room\)"):
        HeldTiles(wanted(), village([], a=Broken(FAILED), b=MemoryError("no room")))
    late = Broken("timed out on the way to b")
    with pytest.raises(DataError, match="the last time: timed out on the way to b"):
        HeldTiles(wanted(), village([], a=Broken(FAILED), b=late))


def test_a_scheduler_that_is_not_there_is_one_sentence():
    with pytest.raises(UsageError, match=r"no Dask scheduler answers at tcp://127\.0\.0\.1:9"):
        DaskHolders(partial(DaskLink, "tcp://127.0.0.1:9", timeout=1.0))
