"""Who holds what, and what is sent, as counted message by message."""

from itertools import pairwise

import pytest

from recbench.linalg.held.layout import Layout, ranges_of


@pytest.mark.parametrize(("holders", "grid"), [(1, (1, 1)), (2, (1, 2)), (4, (2, 2)), (12, (3, 4))])
def test_holders_stand_in_a_grid(holders, grid):
    assert Layout(100, 8, "float32", holders).grid == grid


@pytest.mark.parametrize("holders", [1, 2, 3, 4, 6, 9])
def test_every_tile_has_one_holder_and_messages_add_up_to_the_theory(holders):
    layout = Layout(83, 8, "float64", holders)
    held = [layout.keys(number) for number in range(holders)]
    assert sorted(key for keys in held for key in keys) == [
        (i, j) for i in range(11) for j in range(i + 1)
    ]
    assert all(layout.holder(key) == number for number in range(holders) for key in held[number])
    got = [0] * holders
    for k in range(layout.count):
        for i in range(layout.count):
            owner = layout.holder((max(i, k), min(i, k)))
            crossing = [number for number in range(holders) if i in layout.crossed(number)]
            users = {
                layout.holder((max(i, j), min(i, j))) for j in range(layout.count)
            }  # all that have a tile to be changed by it
            assert users | {owner} <= set(crossing)
            for number in set(crossing) - {owner}:
                got[number] += 8 * layout.height(i) * layout.height(k)
    assert got == [layout.bytes_received(number) for number in range(holders)]
    assert sum(got) == layout.bytes_sent() == 8 * 83**2 * layout.copies


@pytest.mark.parametrize("holders", [2, 3, 4, 6, 9])
def test_work_is_shared_out_and_waiting_for_each_other_costs_a_part_of_it(holders):
    alone, team = (Layout(64 * 8, 8, "float32", number) for number in (1, holders))
    assert alone.operations() == alone.n**3
    assert alone.n**3 / holders < team.operations() < 1.5 * alone.n**3 / holders


def test_operations_that_follow_each_other_are_those_counted_tile_by_tile():
    layout = Layout(37, 8, "float32", 4)
    total = 0.0
    for k in range(5):
        panel, rest = [0.0] * 4, [0.0] * 4
        for key in [(i, j) for i in range(5) for j in range(i + 1) if (i, j) != (k, k)]:
            made = layout.height(key[0]) * layout.height(key[1]) * layout.height(k)
            if k in key:  # two triangles: M's, and M's once more
                panel[layout.holder(key)] += 2 * made
            else:
                rest[layout.holder(key)] += made if key[0] == key[1] else 2 * made
        total += layout.height(k) ** 3 + max(panel) + max(rest)
    assert layout.operations() == total


def test_memory_is_that_of_the_tiles_and_three_panels():
    one, four = Layout(64, 8, "float32", 1), Layout(64, 8, "float32", 4)
    assert one.bytes_held(0) == 4 * (64 * 64 + 64 * 8) // 2
    assert four.bytes_held(1) == 4 * 64 * (1 + 2 + 3) + 3 * 4 * 64 * 8
    assert sum(four.bytes_held(n) for n in range(4)) > one.bytes_held(0)


@pytest.mark.parametrize(
    ("n", "holders", "step"), [(100, 3, 8), (7, 4, 8), (64, 2, 16), (61, 1, 8)]
)
def test_ranges_are_all_columns_once(n, holders, step):
    ranges = ranges_of(n, holders, step)
    assert (ranges[0][0], ranges[-1][1], len(ranges)) == (0, n, holders)
    assert all(one[1] == other[0] for one, other in pairwise(ranges))
    assert all(first % step == 0 or first == n for first, _ in ranges)


def test_the_model_is_the_sum_of_its_parts():
    alone, team = Layout(1024, 64, "float32", 1), Layout(1024, 64, "float32", 4)
    assert alone.seconds(1.0, 1.0) == 1024**3 / 1e9
    slowest = max(map(team.bytes_received, range(4)))
    assert team.seconds(2.0, 1e6) == team.operations() / 2e9 + slowest / 1e6
