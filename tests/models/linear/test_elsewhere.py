"""Linear autoencoders whose inverse is with others are those whose inverse is here."""

from functools import partial

import numpy as np
import pytest
from scipy import sparse

from recbench.campaign.search.grammar import models_from
from recbench.errors import RecbenchError, Refused
from recbench.linalg import topk
from recbench.linalg.tilefolder import TilesError
from recbench.linalg.types import Indices
from recbench.models.base import fit_together
from recbench.models.context import Context
from recbench.models.linear import inverse
from recbench.models.scorers import Query
from villagers import ROOMY, Village

MODELS = ["ease[l2=3]", "edlae[l2=3]", "deql-l2[b=0.4]"]


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Several tiles, and several panels for each holder; and nothing is switched off meanwhile."""
    monkeypatch.setattr("os.fsync", lambda file: None)
    monkeypatch.setattr(inverse, "side_for", lambda n: 8)
    monkeypatch.setattr(inverse, "inverse", partial(inverse.inverse, side=8))
    monkeypatch.setattr(topk, "PANEL_WIDTH", 8)


def train(users: int = 90, unknown: bool = True) -> sparse.csr_array:
    """Fifty items, of which nobody has two, if that is wanted."""
    dense = np.random.default_rng(5).random((users, 50)) < 0.2
    if unknown:
        dense[:, [0, 31]] = False
    return sparse.csr_array(dense.astype(np.float32))


def query(matrix: sparse.csr_array) -> Query:
    """The users, some with a history of things that nobody else has."""
    history = matrix.copy().tolil()
    history[3, 31] = 1
    rows: Indices = np.full(matrix.shape[0], -1, np.int32)
    return Query(sparse.csr_array(history), rows, sparse.csr_array(history), 12)


def fitted(text: str, matrix: sparse.csr_array, **context):
    (scorer,) = fit_together(models_from([text]), matrix, Context(**context))
    return scorer


@pytest.mark.parametrize("unknown", [True, False])
@pytest.mark.parametrize("text", MODELS)
def test_lists_scores_and_weights_have_the_same_bits(text, unknown):
    matrix, village = train(unknown=unknown), Village([ROOMY] * 3)
    here, there = fitted(text, matrix), fitted(text, matrix, holders=village)
    assert len(village.teams) == 1
    (mine,), (theirs,) = (one.base.top(query(matrix), [one.scale]) for one in (there, here))
    assert np.array_equal(mine.items, theirs.items)
    assert np.array_equal(mine.scores, theirs.scores)
    assert np.array_equal(there.score(matrix[:4]), here.score(matrix[:4]))
    assert np.array_equal(there.weights([1, 7]), here.weights([1, 7]))


def test_what_is_kept_is_known_again(tmp_path):
    matrix, told = train(), []
    first = Context(holders=Village([ROOMY] * 4), scratch=tmp_path)
    fit_together(models_from(["ease"]), matrix, first)
    again = Context(
        holders=Village([ROOMY] * 2), scratch=tmp_path, progress=lambda *note: told.append(note)
    )
    (scorer,) = fit_together(models_from(["ease"]), matrix, again)
    assert not told
    (folder,) = tmp_path.glob("inverse-*-float32-spread")
    (kept,) = folder.glob("after-*")
    header = kept / "tiles.json"
    header.write_text(header.read_text().replace("float32", "float64"))
    with pytest.raises(TilesError, match="not as it was written"):
        fit_together(models_from(["ease"]), matrix, again)
    assert scorer.base.n_items == 50


def test_users_are_not_spread():
    with pytest.raises(Refused, match=r"its 20 users are inverted here.*leave out --spread"):
        fitted("ease", train(users=20), holders=Village([ROOMY]))


def test_an_inverse_that_is_worth_nothing_is_told_as_here():
    matrix = sparse.csr_array(np.ones((60, 50), np.float32))
    for context in ({}, {"holders": Village([ROOMY] * 2)}):
        with pytest.raises(RecbenchError, match="raise l2, or compute with --dtype float64"):
            fitted("ease[l2=0]", matrix, **context)
