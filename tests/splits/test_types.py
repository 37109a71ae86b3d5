"""Part and Split: what they refuse and what they hand to a stage."""

import dataclasses

import pytest
from split_toys import dataset_of, random_raw

from recbench.splits.given import Given
from recbench.splits.strong import Strong
from recbench.splits.user_ratio import UserRatio
from recbench.splits.weak import Weak


@pytest.fixture
def split():
    return Weak(0.25, 0.25).apply(dataset_of(random_raw(0, 15, 12, 0.6)))


@pytest.mark.parametrize("side", ["history", "target", "hidden"])
def test_a_part_whose_matrices_differ_in_shape_is_refused(split, side):
    part = split.test
    for wrong in (getattr(part, side)[1:], getattr(part, side)[:, 1:]):
        with pytest.raises(ValueError, match="a Part of shapes"):
            dataclasses.replace(part, **{side: wrong})


@pytest.mark.parametrize("side", ["users", "train_rows"])
def test_a_part_with_other_users_than_rows_is_refused(split, side):
    with pytest.raises(ValueError, match="users"):
        dataclasses.replace(split.test, **{side: getattr(split.test, side)[1:]})


def test_the_test_stage_fits_on_full_and_validation_on_train():
    raw = random_raw(0, 15, 12, 0.6)
    split = Given().apply(dataset_of(raw, part=[2 if k % 4 == 0 else 0 for k in range(len(raw))]))
    assert split.full is not split.train
    assert split.stage("valid") == (split.train, split.valid)
    assert split.stage("test") == (split.full, split.test)


def test_a_rule_says_whether_it_refits():
    assert Given().refits
    assert not any(rule.refits for rule in (Given(refit=False), Strong(), Weak(), UserRatio()))
