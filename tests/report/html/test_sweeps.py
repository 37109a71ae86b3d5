from dataclasses import replace

from recbench.report.html.landscapes import landscapes
from recbench.report.html.sweeps import origins, sweeps
from toys import RUN, trial

GRID = ("grid", "run --grid l2 --grid p")
RANDOM = ("random", "run --search random")


def grid(start, run, **changes):
    """Nine trials over l2 and p."""
    return [
        trial(start + 3 * i + j, 0.1 + i * j / 100, run=run,
              parameters={"l2": 10.0**i, "p": j / 10, **changes})
        for i in range(3) for j in range(3)
    ]  # fmt: skip


def loose(start, run):
    """A random search over the same."""
    return [
        trial(start + i, 0.2, run=run, parameters={"l2": 1.1 * i + 2.03, "p": 0.77 - i / 30})
        for i in range(12)
    ]


def test_a_grid_stays_a_map_beside_a_random_search_in_its_folder():
    rows = [*grid(0, "a"), *loose(100, "b")]
    figures = list(landscapes(rows, "ndcg@20", {"a": GRID, "b": RANDOM}))
    maps = [one for one in figures if "<rect" in one.chart.content]
    assert [one.heading for one in maps] == ["ease, grid"]
    assert len(maps[0].chart.data.lines) == 9
    points = [one for one in figures if "<circle" in one.chart.content]
    assert {one.heading for one in points} == {"ease, random"}
    assert all(len(one.chart.data.lines) == 12 for one in points)


def test_words_and_precision_are_never_mixed_on_an_axis():
    rows = [*grid(0, "a", solver="exact"), *grid(20, "a", solver="cg")]
    figures = list(landscapes(rows, "ndcg@20", {"a": GRID}))
    assert {one.heading for one in figures} == {"ease, solver=exact", "ease, solver=cg"}
    again = [replace(row, trial=f"d{row.trial}", dtype="float64") for row in grid(0, "a")]
    halves = [*grid(0, "a"), *again]
    figures = list(landscapes(halves, "ndcg@20", {"a": GRID}))
    assert {one.heading for one in figures} == {"ease, float32", "ease, float64"}


def test_a_grid_over_other_numbers_is_a_landscape_of_its_own():
    rows = [*grid(0, "a", k=10), *grid(20, "b", k=50)]
    found = sweeps(rows, {"a": GRID, "b": ("grid", "run --set k=50")})
    assert [one.words(found) for one in found] == ["k=10", "k=50"]
    assert [len(one.rows) for one in found] == [9, 9]


def test_what_was_resumed_or_went_on_is_one_landscape():
    first, second = grid(0, "a")[:4], grid(0, "b")[4:]
    (one,) = sweeps([*first, *second], {"a": GRID, "b": GRID})
    assert len(one.rows) == 9
    more = trial(99, 0.3, run="c", parameters={"l2": 1000.0, "p": 0.1})
    (one,) = sweeps([*grid(0, "a"), more], {"a": GRID, "c": ("grid", "run l2=1000 p=0.1")})
    assert more in one.rows


def test_a_loop_in_a_shell_makes_one_curve():
    rows = [trial(i, i / 10, run=str(i), parameters={"l2": float(i)}) for i in range(1, 5)]
    known = {str(i): ("grid", f"run -m ease[l2={i}]") for i in range(1, 5)}
    (figure,) = landscapes(rows, "ndcg@20", known)
    assert len(figure.chart.data.lines) == 4


def test_where_runs_come_from_is_read_from_the_manifest():
    runs = [{**RUN, "search": {"by": "tpe"}}, {**RUN, "id": "b"}]
    assert origins(runs) == {"a": ("tpe", "recbench"), "b": ("", "recbench")}
