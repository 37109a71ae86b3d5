"""Newton-CG: it ends where least squares and gradients do, whatever the loss, and says how."""

from dataclasses import dataclass

import numpy as np
import pytest
from scipy import sparse

from recbench.errors import RecbenchError, Refused, UsageError
from recbench.linalg.topk import kernel_threads
from recbench.models import checkpoint
from recbench.models.checkpoint import Checkpoint
from recbench.models.context import Context
from recbench.models.contract import check_model, example
from recbench.models.factors.losses import QuadraticLoss
from recbench.models.factors.objectives import Weighted
from recbench.models.trained.newton import CUT, Newton
from recbench.registry import MODELS, build
from recbench.splits.strong import Strong
from toys import two_tastes

DOUBLE = {"dtype": np.float64}
RG2 = "rg2[alpha=0.1,l2=0.05]"
KINDS = ["newton[loss=rg2]", "newton[loss=rgx-exact,layers=2]", "newton[curvature=gauss-newton]"]
kinds = pytest.mark.parametrize("text", KINDS)


def model(text, **settings):
    """A model with settings instead of those it has."""
    made = build(text, MODELS)
    given = {name.replace("_", "-"): value for name, value in settings.items()}
    return type(made).of(**{**made.values(), **given})


def some(text, **settings):
    return model(text, **{"factors": 3, "iterations": 4, "tol": 0, **settings})


def fitted(text, train=None, **settings):
    """On little data, in double precision, to the end."""
    given = {"factors": 3, "iterations": 40, "tol": 1e-9, **settings}
    return model(text, **given).fit(example() if train is None else train, Context(**DOUBLE))


def objective(fit):
    return fit.trace[-1]["objective"]


def vectors(scorer):
    return scorer.base.users.trained, scorer.base.items


def same(one, other):
    return all(np.array_equal(a, b) for a, b in zip(vectors(one), vectors(other), strict=True))


@pytest.mark.parametrize(
    "loss",
    [RG2, "rgx[beta=0.2,l2=0.05]", "rgx-exact[l2=0.05]", "wrmf", "ials[popularity=0.5]",
     "rg2-ssm[negatives=3,popularity=1]"],
)  # fmt: skip
def test_it_ends_where_least_squares_do(loss):
    ours = fitted(f"newton[loss={loss}]", factors=2)
    theirs = fitted(f"als[loss={loss}]", factors=2, iterations=150)
    assert objective(ours) == pytest.approx(objective(theirs), rel=1e-6)
    assert len(ours.trace) < len(theirs.trace)


@pytest.mark.parametrize("layers", [0, 2])
def test_items_that_nothing_is_said_of_get_nothing(layers):
    """With popularity, those nobody has: no weight, and no penalty that would pull them down."""
    train = example()
    train = (train @ sparse.diags_array([1.0] * 5 + [0.0] + [1.0] * 6)).tocsr()
    train.eliminate_zeros()
    text = f"newton[loss=rg2-ssm[negatives=3,popularity=0.5],layers={layers}]"
    _, items = vectors(fitted(text, train, iterations=3))
    assert not items[5].any()
    assert np.delete(items, 5, axis=0).any(axis=1).all()


def test_without_extra_weight_it_ends_at_the_closed_form():
    ours = fitted("newton[loss=rg2[alpha=0,l2=0.05]]")
    closed = model("rg2-svd[factors=3,l2=0.05]").fit(example(), Context(**DOUBLE))
    assert objective(ours) == pytest.approx(objective(closed), rel=1e-6)


def test_who_minimises_the_same_says_so():
    rg2 = "rg2[alpha=0,l2=0.1]"
    same_goal = (rg2, f"als[loss={rg2}]", f"newton[loss={rg2}]", "rg2-svd[l2=0.1]",
                 f"mf[loss={rg2},rate=1]", "lightgcn+rg2[alpha=0,l2=0.1,layers=0]")  # fmt: skip
    assert len({model(text).goal for text in same_goal}) == 1
    others = (
        "rg2",
        "newton[layers=3]",
        "mf[loss=rg2,l2=1]",
        "rgx",
        "rg2[factors=3]",
        "simplex[loss=rg2]",
    )
    assert len({model(text).goal for text in (same_goal[0], *others)}) == 1 + len(others)
    assert model("softmax[rate=1,epochs=3]").goal == model("softmax").goal != model("mf-mine").goal


def test_it_begins_as_least_squares_do():
    ours = fitted(f"newton[loss={RG2}]", iterations=1)
    theirs = fitted(f"als[loss={RG2}]", iterations=1)
    assert ours.trace[0]["objective"] == pytest.approx(theirs.trace[0]["objective"], rel=1e-12)


@pytest.mark.parametrize("curvature", ["full", "gauss-newton"])
@pytest.mark.parametrize("layers", [0, 2])
def test_no_round_raises_the_objective(curvature, layers):
    fit = fitted(f"newton[loss={RG2},layers={layers},curvature={curvature}]", iterations=12, tol=0)
    values = [entry["objective"] for entry in fit.trace]
    assert (np.diff(values) <= 1e-12 * np.abs(values[1:])).all()
    assert values[-1] < values[1] < 0


@pytest.mark.parametrize("loss", [RG2, "ials[l2=0.05,popularity=0.7]"])
def test_on_a_graph_it_ends_where_gradients_do(loss):
    """Penalties are of the table, whatever the walks."""
    ours = fitted(f"newton[loss={loss},layers=2]")
    slow = model(f"lightgcn[loss={loss},layers=2,factors=3,l2=0,decay-at=150+200,epochs=250]",
                 rate=0.1, clip=0, batch=1000).fit(example(), Context(**DOUBLE))  # fmt: skip
    assert slow.trace[-1]["loss"] * example().nnz == pytest.approx(objective(ours), rel=1e-3)


@kinds
def test_the_number_of_threads_changes_no_bit(text, monkeypatch):
    monkeypatch.setattr("recbench.linalg.normal.BLOCK", 8)
    monkeypatch.setattr("recbench.linalg.walk.LEAST", 8)
    fits = []
    for threads in (1, 2):
        with kernel_threads(threads):
            fits.append(some(text).fit(example(), Context()))
    assert same(*fits)


@kinds
def test_one_fit_hands_out_what_fits_of_so_many_rounds_are(text):
    models = [some(text, iterations=count) for count in (2, 4)]
    assert len({m.family.key(m) for m in models}) == 1
    together = models[0].family.fit(models, example(), Context())
    for one, fit in zip(models, together, strict=True):
        assert same(one.fit(example(), Context()), fit)
        assert fit.rounds == one.iterations == len(fit.trace) - 1


@kinds
def test_a_killed_fit_goes_on_and_ends_in_the_same_bits(text, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "FIRST", 0.0)
    monkeypatch.setattr(checkpoint, "SHARE", np.inf)

    class Killed(BaseException):
        pass

    def dies(what, done, total):
        if done == 3:
            raise Killed

    models = [some(text, iterations=count) for count in (2, 5)]
    whole = models[0].family.fit(models, example(), Context())
    killed = Context(progress=dies, checkpoint=Checkpoint(tmp_path))
    with pytest.raises(Killed):
        models[0].family.fit(models, example(), killed)
    made = []
    context = Context(
        progress=lambda what, done, total: made.append(done), checkpoint=Checkpoint(tmp_path)
    )
    again = models[0].family.fit(models, example(), context)
    assert made == [3, 4, 5]
    assert all(map(same, whole, again))
    assert [e["objective"] for e in again[1].trace] == [e["objective"] for e in whole[1].trace]
    assert again[1].facts == whole[1].facts


def test_validation_says_when_to_stop_and_is_come_back_to():
    values = dict(enumerate([0.1, 0.2, 0.5, 0.4, 0.3, 0.9]))
    patient = some("newton", iterations=9, patience=2)
    fit = patient.fit(example(), Context(validate=lambda scorer: values[scorer.rounds]))
    assert (fit.rounds, len(fit.trace)) == (2, 5)
    assert same(fit, some("newton", iterations=2).fit(example(), Context()))
    assert patient.family.key(patient) != patient.family.key(some("newton", patience=2))


@pytest.mark.parametrize("layers", [0, 2])
def test_users_who_were_not_trained_on_are_ranked(layers):
    """Without a graph by the vectors that training would have ended with."""
    fit = fitted(f"newton[loss={RG2},layers={layers}]", factors=4, iterations=3)
    rows = np.arange(example().shape[0], dtype=np.int32)
    known, new = fit.score(example(), rows), fit.score(example(), np.full_like(rows, -1))
    assert np.isfinite(new).all()
    if layers == 0:
        assert np.allclose(known, new)


@pytest.mark.parametrize("text", ["newton", "newton[layers=1,loss=wrmf]"])
def test_it_does_what_every_model_must(text):
    assert [c for c in check_model(model(text, factors=3, iterations=3)) if c.problem] == []


def test_two_tastes_are_told_apart():
    split = Strong(minimum=1).apply(two_tastes())
    fit = model("newton", factors=2).fit(split.train, Context())
    assert fit.trace[-1]["objective"] < fit.trace[0]["objective"] < 0


def test_conjugate_gradients_that_are_cut_short_are_a_fact_and_the_fit_goes_on():
    fit = some("newton[loss=ials]", steps=1, accuracy=0, iterations=5).fit(example(), Context())
    assert fit.facts == {CUT: 5}
    assert {entry["cg"] for entry in fit.trace[1:]} == {1}
    assert all(entry["residual"] > 0 for entry in fit.trace[1:])
    values = [entry["objective"] for entry in fit.trace]
    assert values == sorted(values, reverse=True)
    assert fitted("newton[loss=rg2,curvature=gauss-newton]", accuracy=0.5).facts == {CUT: 0}


@pytest.mark.parametrize("curvature", ["full", "gauss-newton"])
@pytest.mark.parametrize("layers", [0, 1])
def test_without_a_penalty_it_ends_all_the_same(curvature, layers):
    fit = fitted(f"newton[loss=rg2[l2=0],layers={layers},curvature={curvature}]", iterations=12)
    assert np.isfinite(fit.score(example(), np.arange(3, dtype=np.int32))).all()
    assert objective(fit) < fit.trace[1]["objective"]


@pytest.mark.parametrize("text", ["newton[init=1e30]", "newton[layers=1,init=1e30]"])
def test_numbers_that_are_not_finite_end_it_with_a_sentence(text):
    with pytest.raises(RecbenchError, match="no longer finite"):
        model(text, factors=3).fit(example(), Context())


def test_what_does_not_fit_in_memory_is_declined():
    with pytest.raises(Refused, match="use fewer factors"):
        model("newton").fit(example(), Context(memory=1000))


def test_where_nothing_decides_it_says_what_to_give():
    with pytest.raises(RecbenchError, match="give l2 > 0"):
        fitted("newton[loss=ials[alpha0=0,l2=0]]")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("newton[loss=softmax]", r"not a quadratic one: mf\[loss=softmax"),
        ("newton[loss=rg2[variant=code]]", r"is no loss.*als\[loss=rg2"),
        ("newton[steps=0]", "'steps' is 0"),
        ("newton[layers=-1]", "'layers' is -1"),
    ],
)
def test_what_it_cannot_minimise_is_refused_in_a_sentence(text, words):
    with pytest.raises(UsageError, match=words):
        build(text, MODELS).fit(example(), Context())


def test_a_loss_that_bends_down_ends_with_a_finite_state():
    """Negative weights are no loss; a plugin may have them."""

    @dataclass(frozen=True)
    class Down(QuadraticLoss):
        objective = Weighted(1.0, -0.9, 1.0, 3.0, 0.0)

    fit = Newton(loss=Down(), factors=3, iterations=10).fit(example(), Context(**DOUBLE))
    values = [entry["objective"] for entry in fit.trace]
    assert np.isfinite(values).all()
    assert values == sorted(values, reverse=True)
