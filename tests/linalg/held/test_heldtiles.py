"""An inverse in the hands of many is, bit for bit, that of one."""

import fcntl
import gc
from itertools import count
from threading import Timer
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse

from recbench.errors import DataError, Refused
from recbench.linalg import tilefolder, topk
from recbench.linalg.gram import gram
from recbench.linalg.held.heldtiles import PARTS, TRIES, HeldTiles, Wanted
from recbench.linalg.held.holder import Asked, Broken, Holder, Source, Taken
from recbench.linalg.held.layout import ranges_of
from recbench.linalg.padded import Padded
from recbench.linalg.tilefolder import TilesError
from recbench.linalg.tiles import NotPositiveDefinite, Tiles
from villagers import ROOMY, Village

N, SIDE = 61, 6
TEAMS = [1, 2, 3, 4]


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Nothing is switched off while these run."""
    monkeypatch.setattr("os.fsync", lambda file: None)


def source(added: float = 5.0) -> Source:
    matrix = sparse.random_array((90, N), density=0.1, rng=np.random.default_rng(1))
    matrix.data[:] = 1
    return Source(sparse.csr_array(matrix, dtype=np.float32), added)


def wanted(dtype: str = "float32", added: float = 5.0, identity: str = "it") -> Wanted:
    return Wanted(source(added), N, dtype, SIDE, identity, "raise l2")


def alone(dtype: str = "float32") -> Tiles:
    tiles = Tiles.zeros(N, dtype, SIDE)
    gram(source().matrix, tiles)
    tiles.add_diagonal(5.0)
    tiles.invert()
    return tiles


def whole(tiles) -> np.ndarray:
    return tiles.panel(0, tiles.n)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("workers", TEAMS)
def test_all_bits_are_those_of_one_machine(workers, dtype):
    village, one, told = Village([ROOMY] * workers), alone(dtype), []
    held = HeldTiles(wanted(dtype), village, progress=lambda *where: told.append(where))
    assert np.array_equal(whole(held), whole(one))
    assert np.array_equal(held.diagonal(), one.diagonal())
    chosen = np.array([60, 0, 17])
    assert np.array_equal(held.rows(chosen), one.rows(chosen))
    z = np.random.default_rng(0).standard_normal((N, 3))
    assert np.allclose(held.matmul(z), one.matmul(z), rtol=1e-5, atol=1e-5)
    k = wanted().source.matrix
    assert held.check_inverse(lambda z: k.T @ (k @ z) + 5.0 * z) < 1e-4
    assert max(told) == (11, 11)


@pytest.mark.parametrize("workers", TEAMS)
def test_the_bytes_that_are_sent_are_those_of_the_theory(workers):
    village = Village([ROOMY] * workers)
    held = HeldTiles(wanted(), village)
    layout = village.teams[0].holders[0].layout
    assert sum(held.received()) == layout.bytes_sent() == 4 * N**2 * (sum(layout.grid) - 2)
    assert held.received() == [layout.bytes_received(w) for w in range(workers)]


@pytest.mark.parametrize("few", [False, True])
@pytest.mark.parametrize("workers", [1, 4])
def test_lists_are_those_of_one_machine(workers, few, monkeypatch):
    monkeypatch.setattr(topk, "PANEL_WIDTH", 8)
    history, items, kept, rest = source().matrix, N, None, None
    if few:  # every other column of the histories is in the matrix
        items, kept = 2 * N, np.arange(0, 2 * N, 2, dtype=np.int32)
        rest = np.full(items, 0.25)
        history = sparse.csr_array(
            (history.data, kept[history.indices], history.indptr), shape=(90, items)
        )
    scales = [None, -np.linspace(0.5, 2.0, items)]
    village, one = Village([ROOMY] * workers), alone()
    held = HeldTiles(wanted(), village)
    before = held.received()
    lists = held.rank(Asked(history, history, 7, scales, kept, rest))
    right = one if kept is None or rest is None else Padded(one, kept, rest)
    for mine, theirs in zip(
        lists, topk.top_of_product(history, right, history, 7, scales), strict=True
    ):
        assert np.array_equal(mine.items, theirs.items)
        assert np.array_equal(mine.scores, theirs.scores)
    if not few:
        layout = village.teams[0].holders[0].layout
        expected = layout.bytes_read(ranges_of(N, workers, 8))
        assert sum(held.received()) - sum(before) == expected


def test_scores_that_are_not_finite_are_known_by_their_scale():
    held = HeldTiles(wanted(), Village([ROOMY] * 3))
    matrix = source().matrix
    scales = [None, np.full(N, np.nan)]
    with pytest.raises(topk.NotFinite) as caught:
        held.rank(Asked(matrix, matrix, 3, scales))
    assert caught.value.scales == [1]


class Trouble:
    """Loses the holder 0 when it is asked for something for the nth time."""

    def __init__(self, *at: int) -> None:
        self.count, self.at = count(1), at

    def __call__(self, number: int, method: str) -> None:
        if method in ("give", "rank", "keep") and next(self.count) in self.at:
            raise Broken("worker 0 was lost")


@pytest.mark.parametrize("at", [1, 101, 140])
@pytest.mark.parametrize("folder", [False, True])
def test_a_lost_holder_costs_what_was_done_since_tiles_were_kept(tmp_path, at, folder):
    village = Village([ROOMY] * 4, Trouble(at, at + 30))
    where = tmp_path / "tiles" if folder else None
    swept = []
    held = HeldTiles(wanted(), village, where, lambda done, _: swept.append(done))
    matrix = source().matrix
    held.rank(Asked(matrix, matrix, 3, [None]))
    assert np.array_equal(whole(held), whole(alone()))
    lost = len(village.teams) - 1
    assert lost in (1, 2)
    assert all(team.closed for team in village.teams[:-1])
    said = [text for text in village.said if not text.startswith("spread: ")]
    assert len(said) == lost
    assert all("the inverse of 61 items" in text for text in said)
    if folder:
        assert len(swept) <= 4 * (11 + lost * -(-11 // PARTS))
        assert "goes on from the tiles that were kept last" in said[0]
        assert [path.name for path in where.glob("after*")] == ["after-00011"]
    else:
        assert "begins anew" in said[0]


def test_whoever_asks_again_takes_up_what_was_kept(tmp_path):
    first = Village([ROOMY] * 4)
    HeldTiles(wanted(), first, tmp_path).close()
    second = Village([ROOMY] * 2)
    swept = []
    held = HeldTiles(wanted(), second, tmp_path, lambda done, _: swept.append(done))
    assert not swept
    assert np.array_equal(whole(held), whole(alone()))


def test_losing_again_and_again_is_an_error():
    def lost(number: int, method: str) -> None:
        if method == "give":
            raise Broken("worker 1 was lost")

    with pytest.raises(DataError, match="6 times a worker was lost before any part"):
        HeldTiles(wanted(), village := Village([ROOMY] * 2, lost))
    assert len(village.teams) == TRIES + 1
    assert all(team.closed for team in village.teams)


def test_so_is_losing_a_worker_over_every_ranking():
    def lost(number: int, method: str) -> None:
        if method == "rank":
            raise Broken("worker 1 was lost")

    held, matrix = HeldTiles(wanted(), village := Village([ROOMY], lost)), source().matrix
    with pytest.raises(DataError, match="5 times a worker was lost while it worked with"):
        held.rank(Asked(matrix, matrix, 3, [None]))
    assert len(village.teams) == TRIES


def test_nobody_holds_tiles_any_more_though_a_worker_was_lost():
    again = count()

    def once(number: int, method: str) -> None:
        if method == "rank" and not next(again):
            raise Broken("worker 1 was lost")

    held, matrix = HeldTiles(wanted(), village := Village([ROOMY], once)), source().matrix
    gc.disable()
    try:
        held.rank(Asked(matrix, matrix, 3, [None]))
        del held
        assert [team.closed for team in village.teams] == [True, True]
    finally:
        gc.enable()


def test_a_holder_that_is_alone_stops_when_it_is_told_to():
    holder = Holder(wanted().layout(1), 0, None)
    holder.fill(source())
    matrix, told = source().matrix, []

    def stop(done: int, total: int) -> None:
        told.append(done)
        holder.stop()

    with pytest.raises(Broken):
        holder.sweep(0, 11, progress=stop)
    assert told == [1]
    with pytest.raises(Broken):
        holder.rank(Asked(matrix, matrix, 3, [None]))


def test_whoever_was_first_is_waited_for():
    village = Village([ROOMY])
    make, first = village.team, iter([True])

    def team(members, layout):
        if next(first, False):
            raise Taken("worker 0 has tiles of another run")
        return make(members, layout)

    village.team = team
    held = HeldTiles(wanted(), village)
    assert np.array_equal(whole(held), whole(alone()))
    assert all(text.startswith("spread: ") for text in village.said)


def test_a_folder_that_another_run_is_at_is_waited_for(tmp_path):
    village = Village([ROOMY])
    with (tmp_path / "tiles.lock").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        Timer(0.1, fcntl.flock, [other, fcntl.LOCK_UN]).start()
        held = HeldTiles(wanted(), village, tmp_path)
    assert village.said[0] == f"another run keeps tiles in {tmp_path}: waiting for it"
    assert np.array_equal(whole(held), whole(alone()))
    with (tmp_path / "tiles.lock").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)  # nobody has it any more


def test_a_folder_that_some_workers_do_not_see_is_refused_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(Holder, "sees", lambda self, file: not self.number and file.exists())
    village = Village([ROOMY] * 3)
    with pytest.raises(TilesError, match=r"2 of 3 workers cannot see .*or leave out"):
        HeldTiles(wanted(), village, tmp_path)
    assert all(team.closed for team in village.teams)


def test_a_matrix_without_inverse_is_told_by_all_as_by_one():
    village = Village([ROOMY] * 4)
    with pytest.raises(NotPositiveDefinite, match=r"its first 6 rows already are not.*raise l2"):
        HeldTiles(wanted(added=-5.0), village)


def test_workers_that_are_too_small_are_left_out_or_refused():
    needed = wanted().needed
    village = Village([needed(3), needed(3), 10, needed(3)])
    HeldTiles(wanted(), village)
    assert village.enough
    assert village.teams[0].holders[0].layout.holders == 3
    village = Village([100, 100])
    words = r"needs 0\.00 GB on each of 2 workers, and worker 0 has 0\.00 GB, worker 1 has"
    with pytest.raises(Refused, match=words):
        HeldTiles(wanted(), village)
    assert not village.enough
    with pytest.raises(Refused, match="there are none; start more workers"):
        HeldTiles(wanted(), Village([]))


def test_tiles_of_another_run_are_refused(tmp_path):
    HeldTiles(wanted(), Village([ROOMY]), tmp_path).close()
    with pytest.raises(TilesError, match="holds tiles of 'it', not of 'other'"):
        HeldTiles(wanted(identity="other"), Village([ROOMY]), tmp_path)


def test_a_tile_that_is_damaged_is_refused(tmp_path):
    HeldTiles(wanted(), Village([ROOMY] * 2), tmp_path).close()
    file = next(tmp_path.glob("after-*/tile-0003-0002.*"))
    content = bytearray(file.read_bytes())
    content[200] ^= 1
    file.write_bytes(content)
    with pytest.raises(TilesError, match="is not as it was written"):
        HeldTiles(wanted(), Village([ROOMY] * 2), tmp_path)


def test_without_room_on_a_disk_what_was_kept_stays(tmp_path, monkeypatch):
    true = tilefolder.TileFolder.write

    def full(self, key, step, tile):
        if self.path.name == "after-00006":
            raise tilefolder._unwritable(self.path, OSError(28, "No space left on device"))
        true(self, key, step, tile)

    monkeypatch.setattr(tilefolder.TileFolder, "write", full)
    with pytest.raises(TilesError, match="No space left on device"):
        HeldTiles(wanted(), Village([ROOMY] * 2), tmp_path)
    monkeypatch.undo()
    swept = []
    held = HeldTiles(wanted(), Village([ROOMY] * 2), tmp_path, lambda done, _: swept.append(done))
    assert min(swept) == 5
    assert np.array_equal(whole(held), whole(alone()))


def test_what_could_not_be_kept_is_not_begun(tmp_path, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=16_000))
    with pytest.raises(Refused, match=r"the tiles that are kept need 0\.0 GB in .*another folder"):
        HeldTiles(wanted(), village := Village([ROOMY]), tmp_path)
    assert not village.teams


def test_there_are_no_more_holders_than_rows_of_tiles():
    village = Village([ROOMY] * 40)
    held = HeldTiles(wanted(), village)
    assert len(village.teams[0].holders) == 11
    assert np.array_equal(whole(held), whole(alone()))
