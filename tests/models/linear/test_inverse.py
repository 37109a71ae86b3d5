import os
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse

from recbench.errors import RecbenchError, Refused
from recbench.linalg.tiles import inverse
from recbench.models.context import Context
from recbench.models.contract import example
from recbench.models.linear.inverse import invert
from recbench.models.linear.userside import UserSide

TRAIN = example(users=60, items=9)
CODE = """
import os, signal, sys
from pathlib import Path
from scipy import sparse
from recbench.linalg import tiles
from recbench.models.context import Context
from recbench.models.linear.inverse import invert

tiles.inverse.__kwdefaults__["side"] = 16
steps = 0

def progress(what, done, total):
    global steps
    steps += 1
    if steps == last:
        os.kill(os.getpid(), signal.SIGKILL)

for users, items in ((200, 150), (150, 200)):
    for last in map(int, sys.argv[2:]):
        if (child := os.fork()) == 0:
            scratch = Path(sys.argv[1], f"{users}-{last}")
            context = Context(scratch=scratch, progress=progress)
            train = sparse.load_npz(Path(sys.argv[1], f"{users}.npz"))
            invert(train, 0.3, 5.0, context)
            os._exit(0)
        assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
"""
STEPS = (1, 40, 300)


def whole(found):
    """C itself."""
    return found.matrix.rows(np.arange(len(found.diagonals.c)))


def thin(users, items, density=0.05):
    """So few interactions that either side may be the cheaper one; everybody has one."""
    some = sparse.random_array((users, items), density=density, rng=0)
    everybody = sparse.eye_array(users, items) + sparse.eye_array(users, items, k=items - users)
    return sparse.csr_array((some + everybody) > 0).astype(np.float32)


def test_the_inverse_is_one_in_memory_and_on_disk(tmp_path):
    dense = TRAIN.toarray().astype(float)
    gram = dense.T @ dense
    expected = np.linalg.inv(gram + np.diag(0.25 * np.diag(gram) + 3.0))
    for context in (Context(dtype=np.float64), Context(dtype=np.float64, scratch=tmp_path)):
        found = invert(TRAIN, 0.2, 3.0, context)
        assert np.allclose(whole(found), expected, rtol=1e-10)
        assert np.allclose(found.diagonals.c, np.diag(expected), rtol=1e-10)
        assert np.allclose(found.diagonals.g, np.diag(gram))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(1500, 1100), (1100, 1500)], ids=["items", "users"])
def test_where_the_inverse_is_kept_changes_no_bit(tmp_path, shape, dtype, monkeypatch):
    """With tiles as they are, more than one of them: other tiles would give other bits."""
    monkeypatch.setattr("os.fsync", lambda file: None)
    train = thin(*shape, density=0.01)
    memory = invert(train, 0.2, 3.0, Context(dtype=dtype))
    disk = invert(train, 0.2, 3.0, Context(dtype=dtype, scratch=tmp_path))
    rows = np.arange(4, dtype=np.int32)
    scores = [found.base.score(train[:4], rows) for found in (memory, disk)]
    assert np.array_equal(*scores)
    assert np.array_equal(memory.diagonals.c, disk.diagonals.c)
    products = [found.matrix.matmul(np.eye(shape[1], 4)) for found in (memory, disk)]
    assert np.array_equal(*products)


def test_another_matrix_gets_another_place_on_disk(tmp_path):
    context = Context(scratch=tmp_path)
    for matrix, ridge in ((TRAIN, 3.0), (TRAIN, 4.0), (example(users=61, items=9), 3.0)):
        invert(matrix, 0.2, ridge, context)
    assert len(list(tmp_path.iterdir())) == 3


def test_another_precision_gets_another_place_on_disk(tmp_path):
    """What was kept in single precision does not answer for double precision."""
    single, double = (Context(dtype=dtype, scratch=tmp_path) for dtype in (np.float32, np.float64))
    invert(TRAIN, 0.2, 3.0, single)
    kept = invert(TRAIN, 0.2, 3.0, double)
    made = invert(TRAIN, 0.2, 3.0, Context(dtype=np.float64))
    assert np.array_equal(whole(kept), whole(made))
    assert len(list(tmp_path.iterdir())) == 2


def test_a_finished_inverse_on_disk_is_opened_not_made(tmp_path):
    first = invert(TRAIN, 0.2, 3.0, Context(scratch=tmp_path))
    steps = []
    again = Context(scratch=tmp_path, progress=lambda *step: steps.append(step))
    second = invert(TRAIN, 0.2, 3.0, again)
    assert np.array_equal(whole(first), whole(second))


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """A folder of folders in which processes, killed at their n-th step, left their work."""
    folder = tmp_path_factory.mktemp("killed")
    for users in (200, 150):
        sparse.save_npz(folder / f"{users}.npz", thin(users, 350 - users))
    words = [sys.executable, "-c", CODE, str(folder), *map(str, STEPS)]
    subprocess.run(words, env=os.environ, check=True)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("users", [200, 150])
@pytest.mark.parametrize("step", STEPS)
def test_killed_in_the_middle_it_goes_on_to_the_same_numbers(
    killed, tmp_path, monkeypatch, users, step
):
    """From the side of 150 items and from that of 150 users."""
    monkeypatch.setitem(inverse.__kwdefaults__, "side", 16)
    scratch, train = killed / f"{users}-{step}", thin(users, 350 - users)
    assert list(scratch.iterdir())
    found = [invert(train, 0.3, 5.0, Context(scratch=one)) for one in (scratch, tmp_path)]
    assert isinstance(found[0].base, UserSide) == (users == 150)
    assert np.array_equal(whole(found[0]), whole(found[1]))
    rows = np.arange(users, dtype=np.int32)
    scores = [one.base.score(train, rows) for one in found]
    assert np.array_equal(*scores)


def test_what_does_not_fit_is_refused_in_a_sentence(tmp_path, monkeypatch):
    with pytest.raises(Refused, match=r"the inverse of 9 items needs .* --tiles-on-disk"):
        invert(TRAIN, 0.2, 3.0, Context(memory=10))
    with pytest.raises(Refused, match=r"the inverse of 90 users needs .* --tiles-on-disk"):
        invert(thin(90, 300), 0.2, 3.0, Context(memory=10))
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=10))
    with pytest.raises(Refused, match="choose another folder"):
        invert(TRAIN, 0.2, 3.0, Context(scratch=tmp_path / "small"))


def test_a_sparse_folder_is_reserved_for_as_if_it_were_not_there(tmp_path, monkeypatch):
    """A process of a version before, killed while it filled the tiles, left them without blocks."""
    context = Context(scratch=tmp_path)
    invert(TRAIN, 0.2, 3.0, context)
    (folder,) = tmp_path.iterdir()
    for tile in folder.glob("tile-*"):
        size = tile.stat().st_size
        tile.write_bytes(b"")
        os.truncate(tile, size)
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=10))
    (folder / "tiles.json").unlink()
    with pytest.raises(Refused, match="choose another folder"):
        invert(TRAIN, 0.2, 3.0, context)


def test_an_ill_conditioned_matrix_is_an_error_with_advice():
    twins = example(users=30, items=8)
    doubled = type(TRAIN)(np.repeat(twins.toarray(), 2, axis=1))
    with pytest.raises(RecbenchError, match="raise l2"):
        invert(doubled, 0.0, 1e-7, Context(dtype=np.float32))
