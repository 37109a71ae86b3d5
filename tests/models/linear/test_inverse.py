import os
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from recbench.errors import RecbenchError, Refused
from recbench.linalg.tiles import inverse
from recbench.models.context import Context
from recbench.models.contract import example
from recbench.models.linear.inverse import invert

TRAIN = example(users=60, items=9)
CODE = """
import os, signal, sys
from pathlib import Path
from recbench.models.contract import example
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

for last in map(int, sys.argv[2:]):
    if (child := os.fork()) == 0:
        scratch = Path(sys.argv[1], str(last))
        invert(example(60, 150), 0.3, 5.0, Context(scratch=scratch, progress=progress))
        os._exit(0)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
"""
STEPS = (1, 40, 300)


def test_the_inverse_is_one_in_memory_and_on_disk(tmp_path):
    dense = TRAIN.toarray().astype(float)
    gram = dense.T @ dense
    expected = np.linalg.inv(gram + np.diag(0.25 * np.diag(gram) + 3.0))
    for context in (Context(dtype=np.float64), Context(dtype=np.float64, scratch=tmp_path)):
        tiles, parts = invert(TRAIN, 0.2, 3.0, context)
        assert np.allclose(tiles.panel(0, 9), expected, rtol=1e-10)
        assert np.allclose(parts.c, np.diag(expected), rtol=1e-10)
        assert np.allclose(parts.g, np.diag(gram))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_where_the_inverse_is_kept_changes_no_bit(tmp_path, dtype, monkeypatch):
    """With the sides as they are, of more than one tile: other tiles would give other bits."""
    monkeypatch.setattr("os.fsync", lambda file: None)
    train = example(users=300, items=1100)
    memory, _ = invert(train, 0.2, 3.0, Context(dtype=dtype))
    disk, _ = invert(train, 0.2, 3.0, Context(dtype=dtype, scratch=tmp_path))
    assert memory.count > 1
    assert np.array_equal(memory.panel(0, 1100), disk.panel(0, 1100))
    scores = [tiles.matmul(np.eye(1100, 4)) for tiles in (memory, disk)]
    assert np.array_equal(*scores)


def test_another_matrix_gets_another_place_on_disk(tmp_path):
    context = Context(scratch=tmp_path)
    for matrix, ridge in ((TRAIN, 3.0), (TRAIN, 4.0), (example(users=61, items=9), 3.0)):
        invert(matrix, 0.2, ridge, context)
    assert len(list(tmp_path.iterdir())) == 3


def test_another_precision_gets_another_place_on_disk(tmp_path):
    """What was kept in single precision does not answer for double precision."""
    single, double = (Context(dtype=dtype, scratch=tmp_path) for dtype in (np.float32, np.float64))
    invert(TRAIN, 0.2, 3.0, single)
    kept, _ = invert(TRAIN, 0.2, 3.0, double)
    made, _ = invert(TRAIN, 0.2, 3.0, Context(dtype=np.float64))
    assert np.array_equal(kept.panel(0, 9), made.panel(0, 9))
    assert len(list(tmp_path.iterdir())) == 2


def test_a_finished_inverse_on_disk_is_opened_not_made(tmp_path):
    first, _ = invert(TRAIN, 0.2, 3.0, Context(scratch=tmp_path))
    steps = []
    again = Context(scratch=tmp_path, progress=lambda *step: steps.append(step))
    second, _ = invert(TRAIN, 0.2, 3.0, again)
    assert np.array_equal(first.panel(0, 9), second.panel(0, 9))


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """A folder of folders in which processes, killed at their n-th step, left their work."""
    folder = tmp_path_factory.mktemp("killed")
    words = [sys.executable, "-c", CODE, str(folder), *map(str, STEPS)]
    subprocess.run(words, env=os.environ, check=True)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("step", STEPS)
def test_killed_in_the_middle_it_goes_on_to_the_same_numbers(killed, tmp_path, monkeypatch, step):
    monkeypatch.setitem(inverse.__kwdefaults__, "side", 16)
    assert list((killed / str(step)).iterdir())
    found = [
        invert(example(60, 150), 0.3, 5.0, Context(scratch=scratch))[0]
        for scratch in (killed / str(step), tmp_path)
    ]
    assert np.array_equal(found[0].panel(0, 150), found[1].panel(0, 150))


def test_what_does_not_fit_is_refused_in_a_sentence(tmp_path, monkeypatch):
    with pytest.raises(Refused, match=r"the inverse of 9 items needs .* --tiles-on-disk"):
        invert(TRAIN, 0.2, 3.0, Context(memory=10))
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
