import json
import os
import random
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from recbench.errors import RecbenchError
from recbench.linalg import blas, tilefolder
from recbench.linalg.tiles import NotPositiveDefinite, Tiles, TilesError, inverse, side_for

SHAPES = [(1, 1), (1, 8), (8, 8), (16, 8), (17, 8), (23, 8), (40, 7), (130, 33)]


def positive(n, ridge=1.0):
    factor = np.random.default_rng(n).standard_normal((2 * n, n))
    return factor.T @ factor + ridge * np.eye(n)


def put(tiles, dense):
    for i, j in tiles.keys:
        tiles.block(i, j)[...] = dense[tiles.span(i), tiles.span(j)]


def tiles_of(dense, dtype=np.float64, side=8, folder=None):
    tiles = Tiles.zeros(len(dense), dtype, side, folder)
    put(tiles, dense)
    return tiles


def whole(tiles):
    return tiles.panel(0, tiles.n)


def close(found, expected, dtype):
    return np.abs(found - expected).max() <= 100 * np.finfo(dtype).eps * np.abs(expected).max()


# Entries


@pytest.mark.parametrize(("n", "side"), SHAPES)
def test_every_way_to_read_gives_the_matrix(n, side):
    dense = positive(n).astype(np.float32)
    tiles = tiles_of(dense, np.float32, side)
    z = np.random.default_rng(0).standard_normal((n, 3)).astype(np.float32)
    chosen = np.array([n - 1, 0, n // 2, 0])
    assert np.array_equal(whole(tiles), dense)
    assert np.array_equal(tiles.rows(chosen), dense[chosen])
    assert np.array_equal(tiles.column(n // 2), dense[:, n // 2])
    assert np.array_equal(tiles.diagonal(), dense.diagonal())
    assert np.allclose(tiles.matmul(z), dense @ z, rtol=1e-5, atol=1e-4)


def test_every_panel_is_the_same_columns():
    dense = positive(45)
    tiles = tiles_of(dense, side=16)
    room = np.empty((45, 20))
    for start in range(45):
        for stop in range(start + 1, 46):
            assert np.array_equal(tiles.panel(start, stop), dense[:, start:stop])
    assert tiles.panel(7, 27, room) is room
    assert room.flags.c_contiguous
    assert np.array_equal(room, dense[:, 7:27])


def test_the_diagonal_takes_a_number_or_one_per_row():
    tiles = Tiles.zeros(10, np.float64, 4)
    tiles.add_diagonal(2)
    tiles.add_diagonal(np.arange(10))
    assert np.array_equal(whole(tiles), np.diag(np.arange(10) + 2.0))


@pytest.mark.parametrize(("n", "side"), SHAPES)
def test_bytes_needed_are_the_bytes_of_the_tiles(n, side):
    tiles = Tiles.zeros(n, np.float32, side)
    assert Tiles.bytes_needed(n, np.float32, side) == sum(
        tiles.block(*key).nbytes for key in tiles.keys
    )


@pytest.mark.parametrize(
    ("n", "side"), [(1, 256), (1792, 256), (1793, 384), (3628, 640), (6272, 896), (6273, 1024)]
)
def test_small_matrices_have_small_tiles(n, side):
    assert side_for(n) == side == Tiles(n).side
    assert Tiles.bytes_needed(n) == Tiles.bytes_needed(n, side=side)


def test_half_a_matrix_is_stored():
    assert Tiles.bytes_needed(40_981, np.float32) < 0.52 * 4 * 40_981**2


@pytest.mark.parametrize("wrong", [{"n": 0}, {"n": 3, "side": 0}, {"n": 3, "dtype": np.int32}])
def test_impossible_tiles_are_refused(wrong):
    with pytest.raises(ValueError, match=r"no matrix|float32 or float64"):
        Tiles.zeros(**wrong)


# The inverse


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("n", "side"), SHAPES)
def test_the_inverse_is_that_of_numpy(n, side, dtype):
    dense = positive(n)
    tiles = tiles_of(dense, dtype, side)
    assert not tiles.inverted
    tiles.invert()
    assert tiles.inverted
    assert close(whole(tiles), np.linalg.inv(dense), dtype)


def test_the_inverse_is_symmetric_to_the_last_bit():
    tiles = tiles_of(positive(40), np.float32, 8)
    tiles.invert()
    assert np.array_equal(whole(tiles), whole(tiles).T)


def test_an_inverse_is_not_inverted_again():
    tiles = tiles_of(positive(20))
    tiles.invert()
    before = whole(tiles)
    tiles.invert()
    assert np.array_equal(whole(tiles), before)


def test_inverting_uses_no_memory_of_its_own():
    tiles = tiles_of(positive(40))
    before = {key: tiles.block(*key).ctypes.data for key in tiles.keys}
    tiles.invert()
    assert {key: tiles.block(*key).ctypes.data for key in tiles.keys} == before


def test_threads_do_not_change_a_bit():
    dense, results = positive(150), []
    z = np.random.default_rng(0).standard_normal((150, 2))
    for threads in (1, 2):
        with threadpool_limits(threads):
            tiles = tiles_of(dense, np.float32, 32)
            tiles.invert()
            results.append((whole(tiles), tiles.matmul(z)))
    assert np.array_equal(results[0][0], results[1][0])
    assert np.array_equal(results[0][1], results[1][1])


def test_progress_counts_to_the_end():
    seen = []
    tiles_of(positive(30)).invert(lambda done, total: seen.append((done, total)))
    assert [done for done, _ in seen] == list(range(1, len(seen) + 1))
    assert {total for _, total in seen} == {len(seen)}


def test_an_inverse_interrupted_in_memory_can_go_on():
    dense = positive(30)
    tiles = tiles_of(dense)

    def stop(done, total):
        if done == 25:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tiles.invert(stop)
    tiles.invert()
    assert close(whole(tiles), np.linalg.inv(dense), np.float64)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("row", [0, 11, 29])
@pytest.mark.parametrize("value", [-1.0, 0.0, np.nan, np.inf])
def test_a_matrix_without_an_inverse_is_an_error(row, value, dtype):
    dense = np.eye(30)
    dense[row, row] = value
    with pytest.raises(NotPositiveDefinite, match=r"30 x 30 .*; raise l2$") as caught:
        tiles_of(dense, dtype).invert(advice="raise l2")
    assert isinstance(caught.value, RecbenchError)


def test_not_a_number_anywhere_is_an_error():
    for i, j in ((29, 0), (12, 11), (20, 3)):
        dense = positive(30)
        dense[i, j] = dense[j, i] = np.nan
        with pytest.raises(NotPositiveDefinite):
            tiles_of(dense).invert()


def test_a_good_inverse_passes_its_check():
    dense = positive(50)
    tiles = tiles_of(dense, np.float32)
    tiles.invert()
    assert 0 < tiles.check_inverse(lambda z: dense @ z) < 1e-5


@pytest.mark.parametrize(("spread", "error"), [(1e4, False), (1e7, True)])
def test_an_ill_conditioned_matrix_is_an_error_that_says_how_bad_it_is(spread, error):
    rotation, _ = np.linalg.qr(np.random.default_rng(0).standard_normal((60, 60)))
    dense = (rotation * np.geomspace(1, spread, 60)) @ rotation.T

    def inverted():
        tiles = tiles_of(dense, np.float32)
        tiles.invert()
        return tiles.check_inverse(lambda z: dense @ z, advice="raise l2")

    if error:
        with pytest.raises(NotPositiveDefinite, match=r"right to \d\.\d digits.*; raise l2"):
            inverted()
    else:
        assert inverted() < 1e-3


def test_a_wrong_inverse_fails_its_check():
    dense = positive(20)
    with pytest.raises(NotPositiveDefinite, match=r"right to 0\.0 digits"):
        tiles_of(dense).check_inverse(lambda z: dense @ z)
    with pytest.raises(NotPositiveDefinite, match=r"right to 0\.0 digits"):
        tiles_of(dense).check_inverse(lambda z: np.nan * z)


# BLAS on views


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("orders", [a + b + c for a in "CF" for b in "CF" for c in "CF"])
def test_products_are_added_in_place_in_any_layout(orders, dtype):
    rng = np.random.default_rng(0)
    for m, n, k in ((5, 3, 4), (1, 3, 2), (3, 1, 1), (1, 1, 1)):
        a, b, c = (
            np.asarray(rng.standard_normal(shape), dtype, order=order)
            for shape, order in zip(((m, k), (k, n), (m, n)), orders, strict=True)
        )
        expected = c - 2 * a @ b
        blas.add_product(c, a, b, -2.0)
        assert np.allclose(c, expected, rtol=1e-5, atol=1e-5)


def test_part_of_an_array_is_not_taken_for_a_whole_one():
    square, part = np.eye(4), np.arange(20.0).reshape(4, 5)
    for a, b in ((part[:2, :3], part[1:, 2:4]), (part.T[:2, :3], part.T[:3, 1:])):
        for out in (np.ones((2, b.shape[1])), np.ones((b.shape[1], 2)).T):
            expected = out + a @ b
            blas.add_product(out, a, b, 1.0)
            assert np.array_equal(out, expected)
    with pytest.raises(ValueError, match="contiguous"):
        blas.add_product(np.eye(2), square[::2, ::2], np.eye(2), 1.0)
    with pytest.raises(TypeError, match="one dtype"):
        blas.add_product(square, square, np.eye(4, dtype=np.float32), 1.0)


# Folders


def fill(tiles):
    put(tiles, positive(tiles.n))


@pytest.fixture
def quick_disk(monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda file: None)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_what_is_saved_can_be_opened_and_not_changed(tmp_path, dtype, quick_disk):
    tiles_of(positive(30), dtype).save(tmp_path)  # is overwritten
    tiles_of(positive(20), dtype).save(tmp_path, "a matrix")
    opened = Tiles.open(tmp_path, "a matrix")
    assert np.array_equal(whole(opened), positive(20).astype(dtype))
    with pytest.raises(ValueError, match="read-only"):
        opened.add_diagonal(1.0)
    opened.save(tmp_path / "copy")
    assert np.array_equal(whole(Tiles.open(tmp_path / "copy")), whole(opened))


def test_a_saved_inverse_is_opened_as_one(tmp_path, quick_disk):
    tiles = tiles_of(positive(20))
    tiles.invert()
    tiles.save(tmp_path)
    opened = Tiles.open(tmp_path)
    assert opened.inverted
    assert np.array_equal(whole(opened), whole(tiles))


def test_on_disk_every_bit_is_as_in_memory(tmp_path, quick_disk):
    for dtype in (np.float32, np.float64):
        on_disk = inverse(37, fill, dtype=dtype, side=8, folder=tmp_path / dtype.__name__)
        assert np.array_equal(whole(on_disk), whole(inverse(37, fill, dtype=dtype, side=8)))


def test_a_finished_inverse_is_opened_at_once(tmp_path, quick_disk):
    first = inverse(20, fill, side=8, folder=tmp_path, identity="a")
    again = inverse(20, pytest.fail, side=8, folder=tmp_path, identity="a")
    assert np.array_equal(whole(again), whole(first))
    assert sorted(file.suffix for file in tmp_path.iterdir()).count(".npy") == 6


def test_another_matrix_in_the_folder_is_refused(tmp_path, quick_disk):
    inverse(20, fill, side=8, folder=tmp_path, identity="a")
    wrong = [
        ({"identity": "b"}, "'a', not of 'b'"),
        ({"identity": "a", "dtype": np.float64}, "float32, not"),
        ({"identity": "a", "n": 21}, "20 x 20"),
    ]
    for given, message in wrong:
        with pytest.raises(TilesError, match=message):
            inverse(**({"n": 20, "side": 8} | given), fill=pytest.fail, folder=tmp_path)


def test_tiles_of_another_side_are_made_anew(tmp_path, quick_disk):
    """They would end, or have ended, in other bits: a folder must give what memory does."""
    inverse(37, fill, side=16, folder=tmp_path, identity="a")
    anew = inverse(37, fill, side=8, folder=tmp_path, identity="a")
    assert anew.side == 8
    assert np.array_equal(whole(anew), whole(inverse(37, fill, side=8)))


def test_a_folder_without_tiles_is_an_error(tmp_path):
    with pytest.raises(TilesError, match="holds no tiles"):
        Tiles.open(tmp_path)


def cut(folder):
    file = next(folder.glob("tile-*"))
    file.write_bytes(file.read_bytes()[:-8])


def swap(folder):
    first, *_, last = sorted(folder.glob("tile-*"))
    first.write_bytes(last.read_bytes())


def edit(folder, **changes):
    header = folder / tilefolder.HEADER
    header.write_text(json.dumps(json.loads(header.read_text()) | changes))


DAMAGE = {
    "cut": cut,
    "empty": lambda folder: next(folder.glob("tile-*")).write_bytes(b""),
    "missing": lambda folder: next(folder.glob("tile-*")).unlink(),
    "wrong shape": swap,
    "old": lambda folder: next(folder.glob("*-0000-*")).rename(folder / "tile-0000-0000.0.npy"),
    "no json": lambda folder: (folder / tilefolder.HEADER).write_text("{"),
    "list": lambda folder: (folder / tilefolder.HEADER).write_text("[]"),
    "no size": lambda folder: edit(folder, n=None),
    "no dtype": lambda folder: edit(folder, dtype="int8"),
    "larger": lambda folder: edit(folder, n=90),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_is_an_error_that_says_what_to_do(tmp_path, damage, quick_disk):
    inverse(20, fill, side=8, folder=tmp_path)
    DAMAGE[damage](tmp_path)
    with pytest.raises(TilesError, match=r"damaged \(.*\); delete"):
        Tiles.open(tmp_path)


def test_a_bit_that_turned_is_noticed(tmp_path, quick_disk):
    expected, dice = whole(inverse(20, fill, side=8, folder=tmp_path)), random.Random(0)
    files = sorted(path for path in tmp_path.iterdir() if path.suffix in (".npy", ".json"))
    for path in files:
        content = path.read_bytes()
        for _ in range(15):
            changed = bytearray(content)
            changed[dice.randrange(len(changed))] ^= 1 << dice.randrange(8)
            path.write_bytes(changed)
            try:
                found = whole(Tiles.open(tmp_path))
            except TilesError:
                continue
            assert np.array_equal(found, expected), f"{path} was changed, and so is the matrix"
        path.write_bytes(content)


def without_checksums(folder):
    """Make a folder look as the version before wrote it."""
    for file in folder.glob("tile-*"):
        file.write_bytes(file.read_bytes()[: -len(tilefolder.TRAILER % 0)])
    header = json.loads((folder / tilefolder.HEADER).read_text())
    del header["digest"]
    (folder / tilefolder.HEADER).write_text(json.dumps(header | {"format": 1}))


@pytest.mark.parametrize("moment", [5, 1000])
def test_tiles_of_the_version_before_go_on_and_are_opened(tmp_path, quick_disk, moment):
    def stop(done, total):
        if done == moment:
            raise KeyboardInterrupt

    with suppress(KeyboardInterrupt):
        inverse(20, fill, side=8, folder=tmp_path, progress=stop)
    without_checksums(tmp_path)
    expected = whole(inverse(20, fill, side=8))
    assert np.array_equal(whole(inverse(20, pytest.fail, side=8, folder=tmp_path)), expected)
    assert np.array_equal(whole(Tiles.open(tmp_path)), expected)


def test_a_newer_format_is_refused(tmp_path, quick_disk):
    tiles_of(positive(3)).save(tmp_path)
    edit(tmp_path, format=99)
    with pytest.raises(TilesError, match="newer"):
        Tiles.open(tmp_path)


def test_a_full_disk_is_an_error_and_the_work_can_go_on(tmp_path, monkeypatch):
    def full(file):
        raise OSError(28, "No space left on device")

    tiles_of(positive(20), np.float32, folder=tmp_path).save(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(TilesError, match=r"No space left.*make room"):
            inverse(20, pytest.fail, side=8, folder=tmp_path)
    monkeypatch.setattr(os, "fsync", lambda file: None)
    found = inverse(20, pytest.fail, side=8, folder=tmp_path)
    assert np.array_equal(whole(found), whole(inverse(20, fill, side=8)))


def test_a_matrix_without_an_inverse_leaves_the_folder_free(tmp_path, quick_disk):
    with pytest.raises(NotPositiveDefinite):
        inverse(20, lambda tiles: tiles.add_diagonal(-1.0), side=8, folder=tmp_path)
    inverse(20, fill, side=8, folder=tmp_path)


# Interruptions


class Crash(BaseException):
    """The process ends here."""


def crash_at(monkeypatch, count):
    """End at the given one of the moments between which files change."""
    left = [count]

    def counted(function, lose=lambda *arguments: None):
        def call(*arguments, **options):
            left[0] -= 1
            if left[0] < 0:
                lose(*arguments)
                raise Crash
            return function(*arguments, **options)

        return call

    def lose_half(file):
        os.ftruncate(file, os.fstat(file).st_size // 2)

    monkeypatch.setattr(os, "fsync", counted(lambda file: None, lose_half))
    for name in ("replace", "unlink"):
        monkeypatch.setattr(Path, name, counted(getattr(Path, name)))


@pytest.mark.parametrize(("n", "every"), [pytest.param(12, 1, marks=pytest.mark.slow), (20, 7)])
def test_stopped_between_any_two_changes_of_files_it_goes_on(tmp_path, monkeypatch, n, every):
    expected, moment = whole(inverse(n, fill, side=8)), 0
    options = {"side": 8, "folder": tmp_path, "identity": "a"}
    while True:
        for file in tmp_path.iterdir():
            file.unlink()
        with monkeypatch.context() as patch, threadpool_limits(1):
            crash_at(patch, moment)
            try:
                inverse(n, fill, **options)
                break
            except Crash:
                moment += every
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", lambda file: None)
            assert np.array_equal(whole(inverse(n, fill, **options)), expected)
        assert len(list(tmp_path.glob("tile-*"))) == (3 if n <= 16 else 6)
    assert moment > 30


def test_an_interrupted_inverse_is_not_opened_as_a_matrix(tmp_path, quick_disk):
    def stop(done, total):
        if done == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        inverse(20, fill, side=8, folder=tmp_path, progress=stop)
    with pytest.raises(TilesError, match="interrupted; run again"):
        Tiles.open(tmp_path)


FILLING = """
import sys
from pathlib import Path
from recbench.linalg.tiles import TilesError, inverse

def fill(tiles):
    for key in tiles.keys:
        tiles.block(*key)[...] = 1.0

try:
    inverse(2000, fill, side=500, folder=Path(sys.argv[1]))
except TilesError as error:
    print(error)
"""


@pytest.mark.slow
def test_a_full_disk_is_a_sentence_before_the_tiles_are_filled(tmp_path):
    """Pages that are mapped and have no block are signal 7 when they are written to."""
    made = ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(tmp_path)]
    if shutil.which("mount") is None or subprocess.run(made, capture_output=True).returncode:
        pytest.skip("a file system may not be mounted here")
    try:
        command = [sys.executable, "-c", FILLING, str(tmp_path / "tiles")]
        done = subprocess.run(command, capture_output=True, text=True)
    finally:
        subprocess.run(["umount", "-l", str(tmp_path)], check=True)
    assert done.returncode == 0, done
    assert "No space left on device" in done.stdout
    assert "make room and run again" in done.stdout


KILLED = """
import os, signal, sys
from pathlib import Path
import numpy as np
from recbench.linalg.tiles import inverse

folder, n, moment = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])

def fill(tiles):
    dense = np.load(folder.with_suffix(".npy"))
    for i, j in tiles.keys:
        if moment == 0 and i == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        tiles.block(i, j)[...] = dense[tiles.span(i), tiles.span(j)]

def progress(done, total):
    if done == moment:
        os.kill(os.getpid(), signal.SIGKILL)

inverse(n, fill, side=16, folder=folder, identity="a", progress=progress)
"""


@pytest.mark.slow
def test_killed_again_and_again_it_ends_with_the_same_bits(tmp_path):
    n, folder = 60, tmp_path / "tiles"
    np.save(folder.with_suffix(".npy"), positive(n))
    for moment in (0, 3, 17, 40):
        command = [sys.executable, "-c", KILLED, str(folder), str(n), str(moment)]
        assert subprocess.run(command, env=os.environ).returncode == -signal.SIGKILL
    found = inverse(n, pytest.fail, side=16, folder=folder, identity="a")
    assert np.array_equal(whole(found), whole(inverse(n, fill, side=16)))
