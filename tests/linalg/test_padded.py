import numpy as np

from recbench.linalg.padded import Padded
from recbench.linalg.tiles import Tiles

KEPT = np.array([0, 2, 3, 4, 7], np.int32)
REST = np.arange(10.0, 19.0)


def spread():
    inside = np.random.default_rng(0).standard_normal((5, 5)).astype(np.float32)
    inside += inside.T
    tiles = Tiles.zeros(5, np.float32, 2)
    for i, j in tiles.keys:
        tiles.block(i, j)[...] = inside[tiles.span(i), tiles.span(j)]
    dense = np.diag(REST).astype(np.float32)
    dense[np.ix_(KEPT, KEPT)] = inside
    return Padded(tiles, KEPT, REST), dense


def test_every_way_to_read_gives_the_matrix():
    matrix, dense = spread()
    z = np.random.default_rng(1).standard_normal((9, 3)).astype(np.float32)
    chosen = np.array([8, 0, 3, 0, 1])
    assert np.array_equal(matrix.rows(chosen), dense[chosen])
    assert np.array_equal(matrix.diagonal(), dense.diagonal())
    assert np.allclose(matrix.matmul(z), dense @ z, rtol=1e-5, atol=1e-5)


def test_every_panel_is_the_same_columns():
    matrix, dense = spread()
    room = np.empty((9, 4), np.float32)
    for start in range(9):
        for stop in range(start + 1, 10):
            assert np.array_equal(matrix.panel(start, stop), dense[:, start:stop])
    assert matrix.panel(2, 6, room) is room
    assert np.array_equal(room, dense[:, 2:6])
