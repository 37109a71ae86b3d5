"""Winners at the edge of what was tried."""

from dataclasses import replace

import pytest

from recbench.campaign.row import Row
from recbench.report.edges import edge_notes


def row(model: str, value: float | None, seed: int = 0, **parameters) -> Row:
    known = {name.replace("_", "-"): given for name, given in parameters.items()}
    text = f"{model}[{','.join(f'{name}={given}' for name, given in known.items())}]"
    return Row(
        trial=f"{text} {seed}", dataset="toy", fingerprint="1", split="strong", model=model,
        parameters=known, text=text, seed=seed, dtype="float32", part="valid",
        status="ok" if value is not None else "failed",
        metrics={} if value is None else {"ndcg@10": value},
    )  # fmt: skip


def ease(*values: float | None, grid=(1.0, 10.0, 100.0), **more) -> list[Row]:
    return [row("ease", v, l2=l2, **more) for l2, v in zip(grid, values, strict=True)]


def notes(rows) -> list[str]:
    return [note.partition(": a better")[0] for note in edge_notes(rows, "ndcg@10")]


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (ease(0.3, 0.2, 0.1), ["warning: ease is best at l2=1, the lowest of 3 values tried"]),
        (ease(0.1, 0.2, 0.3), ["warning: ease is best at l2=100, the highest of 3 values tried"]),
        (ease(0.1, 0.3, 0.2), []),
        (ease(0.1, 0.3, grid=(1.0, 10.0)), []),  # of two, each is an end
        (ease(0.3, 0.3, 0.1), []),  # one inside is as good
        (ease(0.3, 0.2, 0.1, grid=(0.0, 10.0, 100.0)), []),  # there is nothing below no penalty
        (ease(None, 0.3, 0.2), []),  # what failed has no place among the values: two are left
        ([row("rlae", xi, xi=xi, l2=1.0) for xi in (0.0, 0.5, 1.0)], []),  # a share ends at 1
        (
            [row("dlae", p, p=p, l2=1.0) for p in (0.1, 0.5, 0.9)],
            ["warning: dlae is best at p=0.9, the highest of 3 values tried"],
        ),
        ([row("gone", -x, x=x) for x in (0, 1, 2)], []),  # a plugin that is not here
        (
            [row("gone", x, x=x) for x in (0, 1, 2)],
            ["warning: gone is best at x=2, the highest of 3 values tried"],
        ),
        (
            [row("als", a, loss=f"ials[alpha0={a},l2=0.1]") for a in (0.1, 0.2, 0.4)],
            ["warning: als is best at loss.alpha0=0.4, the highest of 3 values tried"],
        ),
        ([row("x", v, word=word) for v, word in ((1, "a"), (2, "b"), (3, "c"))], []),
    ],
)
def test_a_winner_at_an_end_is_told_unless_there_is_nothing_beyond(rows, told):
    assert notes(rows) == told


def test_what_a_search_stopped_was_tried_and_never_wins():
    first, second, third = ease(0.1, 0.2, 0.3)
    assert notes([first, second, replace(third, stopped=2)]) == []
    beyond = row("ease", 0.9, l2=1000.0)
    assert notes([first, second, third, replace(beyond, stopped=2)]) == []
    assert notes([replace(one, stopped=2) for one in (first, second, third)]) == []


def test_among_several_numbers_that_were_drawn_an_end_is_chance():
    drawn = [row("rlae", 1 / l2, l2=l2, xi=xi) for l2, xi in ((1.5, 0.3), (20.1, 0.2), (7.3, 0.4))]
    assert notes(drawn) == []


def test_a_product_of_grids_is_looked_at_axis_by_axis_and_seed_by_seed():
    rows = [
        row("rlae", 1 / l2 - abs(xi - 0.5), seed, l2=l2, xi=xi)
        for l2 in (1.0, 10.0, 100.0)
        for xi in (0.2, 0.5, 0.8)
        for seed in (0, 1)
    ]
    assert notes(rows) == ["warning: rlae is best at l2=1, the lowest of 3 values tried"]


def test_it_is_told_wherever_the_winner_stands(recbench, own, folder):
    words = ["-m", "ease", "-k", "ndcg@10", "-o", "out"]
    ran = recbench("run", *own, *words, "--grid", "l2=1,10,100,300")
    told = "warning: ease is best at l2=300, the highest of 4 values tried: a better one may lie"
    assert told in ran.stdout
    assert "--grid ease.l2=... adds to what is there" in ran.stdout
    assert told in recbench("show", "out").stdout
    assert told in recbench("show", "out", "--trials", "--format", "md").stdout
    assert recbench("report", "out").exit_code == 0
    assert told in (folder / "out" / "report.html").read_text()
    more = recbench("run", *own, *words, "--grid", "ease.l2=1000,3000,10000")
    assert told not in more.stdout + recbench("show", "out").stdout
