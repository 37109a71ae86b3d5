import itertools
from dataclasses import replace

import pytest

import toys
from recbench.campaign.selection import best, leaders, merit, ranked, selected

SELECT = "ndcg@20"
ROWS = [toys.trial(1, 0.5), toys.trial(2, 0.7), toys.trial(3, 0.7), toys.trial(4, 0.1)]


@pytest.mark.parametrize("order", list(itertools.permutations(ROWS)))
def test_the_best_does_not_depend_on_what_finished_first(order):
    assert [row.trial for row in ranked(order, SELECT)] == ["t2", "t3", "t1", "t4"]
    assert best(order, SELECT).trial == "t2"
    assert selected(order, SELECT) == {"t2"}
    assert leaders(order, SELECT) == {("ease", 0): merit(ROWS[1], SELECT)}


def test_every_model_seed_dataset_and_split_has_a_winner_of_its_own():
    changes = [{"model": "edlae"}, {"seed": 1}, {"dataset": "other"}, {"split": "weak"}]
    others = [
        replace(toys.trial(1, 0.1), trial=f"other{n}", **change) for n, change in enumerate(changes)
    ]
    assert selected([*ROWS, *others], SELECT) == {"t2", "other0", "other1", "other2", "other3"}


def test_only_validation_chooses():
    tested = replace(toys.trial(9, 0.9), part="test")
    failed = replace(toys.trial(8, 0.0, status="failed"), metrics={})
    assert selected([*ROWS, tested, failed], SELECT) == {"t2"}
    assert leaders([tested, failed], SELECT) == {}


def test_what_was_tested_alone_and_without_validation_was_chosen_before():
    alone, rival = (replace(toys.trial(n, 0.9), part="test", model="rg2") for n in (8, 9))
    assert selected([*ROWS, alone], SELECT) == {"t2", "t8"}
    assert selected([*ROWS, alone, rival], SELECT) == {"t2"}
    assert selected([*ROWS, alone, replace(rival, seed=1)], SELECT) == {"t2", "t8", "t9"}
    assert selected([*ROWS, alone, replace(alone, part="valid", metrics={})], SELECT) == {"t2"}


def test_what_was_stopped_is_never_selected_and_comes_after_what_was_not():
    early, late = toys.trial(8, 0.9, stopped=1), toys.trial(9, 0.2, stopped=3)
    rows = [early, *ROWS, late]
    assert [row.trial for row in ranked(rows, SELECT)] == ["t2", "t3", "t1", "t4", "t9", "t8"]
    assert selected(rows, SELECT) == {"t2"}
    assert leaders(rows, SELECT) == {("ease", 0): merit(ROWS[1], SELECT)}
    assert selected([early, late], SELECT) == set()


def test_what_was_not_measured_comes_last():
    unknown = replace(ROWS[0], metrics={})
    assert ranked([unknown, *ROWS], SELECT)[-1] is unknown
    assert selected([unknown], SELECT) == set()
