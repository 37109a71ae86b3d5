"""Training: what one fit hands out, what a seed decides, what is refused."""

import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

import papers
from recbench.errors import RecbenchError, Refused, UsageError
from recbench.linalg.topk import kernel_threads
from recbench.models import checkpoint
from recbench.models.checkpoint import Checkpoint
from recbench.models.context import Context
from recbench.models.contract import example
from recbench.models.trained.batches import Draws
from recbench.models.trained.encoders import Mf
from recbench.models.trained.losses.logistic import Bce
from recbench.models.trained.losses.quadratic import trained
from recbench.models.trained.training import Training
from recbench.registry import LOSSES, MODELS, build

SMALL = "epochs=40,decay-at=never,rate=0.05,factors=3,init=0.1,batch=100,drawn=24,l2=0.01"
PLANTED = {
    "ccl": "ccl[weight=1,margin=0]", "cml": "cml[margin=2,longest=0]",
    "infonce": "infonce[t=1,against=9]", "mine-plus": "mine-plus[t=0.6,weight=1]",
    "rg2": "rg2[alpha=0.1,l2=0.1]", "rgx": "rgx[alpha=0.1,l2=0.1]",
    "rgx-exact": "rgx-exact[alpha=0.1,l2=0.1]", "sml": "sml[weight=1]",
}  # fmt: skip
"""Losses with parameters for which two blocks are what is best."""
LEAST = {
    "bpr": 0.95, "cml": 0.8, "mse": 0.95, "rg2-matrix": 0.95, "sparsemax": 0.9, "sgl-ed": 0.9,
}  # fmt: skip
"""How much of them is found where that is not all; by chance it would be a quarter."""
KINDS = [
    "mf[loss=softmax,dropout=0.2]",
    "mf[loss=bpr]",
    "mf[loss=cml,negatives=shared,drawn=5]",
    "mf[loss=sml,optimizer=adam-lazy]",
    "mf[loss=uib,negatives=batch]",
    "lightgcn[loss=mine-plus[t=0.3]]",
    "sgl-ed",
    "simplex[gather=attention,tables-for=own]",
    "youtubenet",
]
"""Of every encoder and every engine."""
each = pytest.mark.parametrize("text", KINDS)


def model(text, **settings):
    """A model with settings instead of those it has."""
    made = build(text, MODELS)
    given = {name.replace("_", "-"): value for name, value in settings.items()}
    return type(made).of(**{**made.values(), **given})


def vectors(scorer):
    return scorer.base.users.trained, scorer.base.items


def same(one, other):
    return all(np.array_equal(a, b) for a, b in zip(vectors(one), vectors(other), strict=True))


def some(text, **settings):
    return model(text, **{"epochs": 3, "factors": 5, "batch": 50, **settings})


@each
def test_the_number_of_threads_changes_no_bit(text, monkeypatch):
    monkeypatch.setattr("recbench.linalg.responses.PANEL", 16)
    monkeypatch.setattr("recbench.linalg.responses.SCORES", 1)
    monkeypatch.setattr("recbench.linalg.adam.LEAST", 8)
    monkeypatch.setattr("recbench.linalg.walk.LEAST", 8)
    train, fits = example(30, 40), []
    for threads in (1, 2):
        with kernel_threads(threads):
            fits.append(some(text, epochs=1).fit(train, Context()))
    assert same(*fits)


@pytest.mark.parametrize("loss", ["cml", "sml"])
def test_vectors_of_metric_losses_stay_in_a_ball(loss):
    train, lengths = example(), {}
    for longest in (0, 0.5):
        text = f"mf[loss={loss}[longest={longest}]]"
        base = some(text, epochs=5, rate=0.3).fit(train, Context()).base
        newcomers = base.users.strangers(train[:9])
        users = np.concatenate([base.users.trained, newcomers])[:, :5] / 2  # -|p - q|² has 2 p·q
        lengths[longest] = [np.linalg.norm(rows, axis=1) for rows in (users, base.items[:, :5])]
    for free, held in zip(lengths[0], lengths[0.5], strict=True):
        assert free.max() > 0.6
        assert held.max() == pytest.approx(0.5, abs=1e-6)


@each
def test_a_seed_is_a_fit(text):
    one, again, other = (some(text).fit(example(), Context(seed=seed)) for seed in (1, 1, 2))
    assert same(one, again)
    assert not same(one, other)


@each
def test_one_fit_hands_out_what_fits_of_so_many_epochs_are(text):
    models = [some(text, epochs=count, decay_at="1+3") for count in (2, 5, 4)]
    assert len({m.family.key(m) for m in models}) == 1
    together = models[0].family.fit(models, example(), Context())
    for one, count, fit in zip(models, (2, 5, 4), together, strict=True):
        alone = one.fit(example(), Context())
        assert same(alone, fit)
        assert fit.rounds == len(fit.trace) == count
        rates = [round(entry["rate"] / models[0].training.rate, 9) for entry in fit.trace]
        assert rates == [1, 0.1, 0.1, 0.01, 0.01][:count]


@each
def test_a_killed_fit_goes_on_and_ends_in_the_same_bits(text, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "FIRST", 0.0)
    monkeypatch.setattr(checkpoint, "SHARE", np.inf)

    class Killed(BaseException):
        pass

    made = []

    def dies(what, done, total):
        if done == 4:
            raise Killed

    models = [some(text, epochs=count) for count in (2, 6)]
    whole = models[0].family.fit(models, example(), Context())
    with pytest.raises(Killed):
        models[0].family.fit(
            models, example(), Context(progress=dies, checkpoint=Checkpoint(tmp_path))
        )
    context = Context(
        progress=lambda what, done, total: made.append(done), checkpoint=Checkpoint(tmp_path)
    )
    again = models[0].family.fit(models, example(), context)
    assert made == [4, 5, 6]
    assert all(map(same, whole, again))
    assert [e["loss"] for e in again[1].trace] == [e["loss"] for e in whole[1].trace]


def test_every_epoch_draws_anew(monkeypatch):
    """The same numbers drawn again would be the same interactions against the same items."""
    drawn, draws = [], Draws.batches

    def noted(self, train, draw):
        for batch in draws(self, train, draw):
            drawn.append((batch.users.tobytes(), batch.items[batch.columns].tobytes()))
            yield batch

    monkeypatch.setattr(Draws, "batches", noted)
    some("mf[loss=bpr]", batch=1000, epochs=4).fit(example(), Context())
    assert len(drawn) == 4
    for part in zip(*drawn, strict=True):
        assert len(set(part)) == 4


def test_validation_says_when_to_stop_and_is_come_back_to():
    values = dict(enumerate([0.1, 0.3, 0.5, 0.4, 0.5, 0.2, 0.9], start=1))
    patient = some("mf", epochs=20, patience=3)
    fit = patient.fit(example(), Context(validate=lambda scorer: values[scorer.rounds]))
    assert (fit.rounds, len(fit.trace)) == (3, 6)
    assert same(fit, some("mf", epochs=3).fit(example(), Context()))
    again = patient.fit(example(), Context(rounds={patient.text: 3}))
    assert same(fit, again)
    shorter = some("mf", epochs=9, patience=3)
    assert patient.family.key(patient) != patient.family.key(shorter)


def test_double_precision_is_the_same_fit_to_more_digits():
    for text in ("mf", "mf[loss=bpr]", "lightgcn[loss=softmax]"):
        double, single = (
            vectors(some(text).fit(example(), Context(dtype=dtype)))
            for dtype in (np.float64, np.float32)
        )
        for one, other in zip(double, single, strict=True):
            assert (one.dtype, other.dtype) == (np.float64, np.float32)
            assert np.abs(one - other).max() < 1e-3 * np.abs(one).max()


def planted():
    """Two tastes: 60 users, each with most of the 12 items that he likes."""
    alike = np.equal.outer(np.arange(60) % 2, np.arange(24) % 2)
    has = alike & (np.random.default_rng(0).random(alike.shape) < 0.7)
    return sparse.csr_array(has.astype(np.float32)), alike


def found(scorer, train, alike):
    """How much of what users like and do not have is ranked before everything else."""
    scores = scorer.score(train, np.arange(train.shape[0], dtype=np.int32))
    order = np.argsort(-np.where(train.toarray() > 0, -np.inf, scores), axis=1)
    missing = (alike & (train.toarray() == 0)).sum(axis=1)
    return np.mean([alike[u, order[u, :k]].mean() for u, k in enumerate(missing) if k])


@pytest.mark.parametrize(
    ("encoder", "loss"),
    [*(("mf", loss) for loss in LOSSES.names())]
    + [("lightgcn", loss) for loss in ("softmax", "ccl", "ials", "mine-plus")]
    + [("sgl-ed", "mine-plus"), ("simplex", "ccl"), ("simplex", "bpr")]
    + [("youtubenet", loss) for loss in ("infonce", "bpr")],
)
def test_planted_blocks_are_found(encoder, loss):
    text = PLANTED.get(loss, papers.LOSSES.get(loss, loss))
    fit = build(f"{encoder}[loss={text},{SMALL}]", MODELS).fit(planted()[0], Context())
    assert found(fit, *planted()) >= LEAST.get(encoder, LEAST.get(loss, 1))
    assert fit.trace[-1]["loss"] < fit.trace[0]["loss"] - 0.02


@pytest.mark.parametrize(
    "loss", ["ials[l2=0.05,alpha0=0.2]", "rg2[l2=0.05]", "ials[l2=0.05,alpha0=0.2,popularity=0.7]"]
)
def test_least_squares_by_gradients_end_where_als_does(loss):
    train, double = example(), Context(dtype=np.float64)
    als = build(f"als[loss={loss},factors=2,iterations=200,tol=0]", MODELS).fit(train, double)
    slow = build(
        f"mf[loss={loss},factors=2,epochs=240,rate=0.1,decay-at=120+180,init=0.1,clip=0]", MODELS
    ).fit(train, double)
    ours, theirs = slow.trace[-1]["loss"] * train.nnz, als.trace[-1]["objective"]
    assert ours == pytest.approx(theirs, rel=1e-6)
    rows = np.arange(40, dtype=np.int32)
    assert np.abs(slow.score(train, rows) - als.score(train, rows)).max() < 2e-3


@pytest.mark.parametrize("negatives", ["shared", "own", "all"])
def test_negatives_come_by_popularity_where_a_quadratic_loss_says_so(negatives):
    """What nobody has is then no negative at all, and stays where it began."""
    train = example()
    train = sparse.csr_array(np.where(np.arange(12) == 5, 0, train.toarray()))
    ends = [
        vectors(some(text, epochs=count).fit(train, Context()))[1][5]
        for text in (f"mf[loss=mse[l2=0{more}],negatives={negatives},drawn=9]"
                     for more in ("", ",popularity=0.5"))
        for count in (1, 4)
    ]  # fmt: skip
    assert not np.array_equal(ends[0], ends[1])
    assert np.array_equal(ends[2], ends[3])


@pytest.mark.parametrize("encoder", ["mf", "lightgcn"])
def test_a_trace_of_a_quadratic_loss_has_its_objective_after_every_epoch(encoder):
    """With all users in a step an epoch's loss is that of the vectors it begins with."""
    text = f"{encoder}[loss=rg2[l2=0.05],epochs=3,factors=3,batch=1000,init=0.3,every=2]"
    train = example(30, 20)
    trace = build(text, MODELS).fit(train, Context(watch=lambda scorer: {})).trace
    assert [("objective" in entry) for entry in trace] == [False, True, False]
    assert trace[1]["objective"] == pytest.approx(trace[2]["loss"] * train.nnz, rel=1e-5)
    assert trace[1]["objective"] < trace[1]["loss"] * train.nnz
    other = build("mf[loss=softmax,epochs=1]", MODELS).fit(train, Context(watch=lambda _: {}))
    assert "objective" not in other.trace[0]


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("rg2", "alpha=0.3"),
        ("rgx", "alpha=0.3"),
        ("mse", "negatives=3"),
        ("mse-debiased", "weight=0.3"),
    ],
)
def test_the_name_of_a_loss_on_a_graph_has_the_penalty_of_the_loss(name, given):
    short = build(f"lightgcn+{name}[{given},l2=0.5,layers=2]", MODELS)
    assert short.loss == build(f"{name}[{given},l2=0.5]", LOSSES)
    assert short.training.l2 == 0
    long = model(f"lightgcn[loss={name}[{given},l2=0.5],layers=2]", l2=0, rate=0.01)
    assert short.goal == long.goal
    long = model(long.text, draw="interactions", epochs=2, decay_at="20+26")
    assert same(*(m.fit(example(), Context()) for m in (long, model(short.text, epochs=2))))


def test_without_layers_a_graph_changes_nothing_of_a_quadratic_loss():
    settings = "epochs=3,factors=3,init=0.1,rate=0.01,l2=0,decay-at=never,draw=interactions,batch=9"
    texts = [f"mf[loss=rg2,{settings}]", f"lightgcn[loss=rg2,layers=0,{settings}]"]
    flat, graph = (vectors(model(text).fit(example(), Context())) for text in texts)
    assert all(np.allclose(a, b, rtol=1e-4, atol=1e-6) for a, b in zip(flat, graph, strict=True))
    assert model(texts[0]).goal == model(texts[1]).goal


def test_quadratic_losses_have_other_last_digits_than_they_had():
    assert "squares@2" in build("mf[loss=rg2]", MODELS).identity
    assert "squares" not in build("mf[loss=softmax]", MODELS).identity


def test_learned_margins_stay_between_nothing_and_one():
    for widen in (0.0, 10.0):
        fit = model(f"mf[loss=sml[widen={widen}],rate=0.5,epochs=6,batch=16]")
        states = Checkpointed()
        fit.fit(example(), Context(checkpoint=states))
        margins = [states.last[f"state/table/{side} margins"] for side in ("user", "item")]
        assert all(((m >= 0) & (m <= 1)).all() for m in margins)
        assert all((m == 1).all() for m in margins) == (widen == 10.0)


class Checkpointed(Checkpoint):
    """Keeps what would be written."""

    def __init__(self):
        self.last, self.earlier = {}, 0.0

    def save_in_time(self, fit, name, seconds, make):
        self.last = {name: np.array(array) for name, array in make()[0].items()}

    def load(self, fit, name):
        return None


def test_gradients_are_clipped_to_a_length():
    """The trace says how long they were; Adam forgets lengths, but not how they differ."""
    free, clipped = (
        some("mf", clip=clip, rate=0.1).fit(example(), Context()) for clip in (0, 1e-4)
    )
    assert free.trace[0]["gradient"] == clipped.trace[0]["gradient"] > 1e-3
    assert not same(free, clipped)
    assert same(free, some("mf", clip=1e6, rate=0.1).fit(example(), Context()))


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("mf", 256), ("mf[loss=bpr]", 2048), ("mf[loss=bpr,negatives=all]", 256),
        ("lightgcn", 16384), ("lightgcn[loss=mine-plus]", 512), ("simplex", 2048),
        ("mf[batch=7]", 7),
    ],
)  # fmt: skip
def test_rows_of_a_step_are_as_many_as_suit_the_engine(text, rows):
    made = model(text)
    assert made.training.batch_for(trained(made.loss), made.encoder) == rows


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ("loss=softmax[t=0]", "parameter 't' is 0, it must be a number in .0.01, inf."),
        ("loss=ccl[margin=1.5]", "parameter 'margin' is 1.5, it must be a number in .-1, 1."),
        ("loss=cml[margin=-1]", "parameter 'margin' is -1"),
        ("epochs=0", "parameter 'epochs' is 0"),
        ("batch=-1", "parameter 'batch' is -1"),
        ("drawn=0", "parameter 'drawn' is 0"),
        ("rate=0", "parameter 'rate' is 0"),
        ("rate=nan", "parameter 'rate' is nan"),
        ("dropout=1", "parameter 'dropout' is 1"),
        ("decay-at=soon", "'decay-at' is soon; it must be never, or numbers of epochs from 1 on"),
        ("decay-at=0+5", "'decay-at' is 0.5; it must be never"),
        ("decay-at=5+", "'decay-at' is 5.; it must be never"),
        ("loss=nothing", "nothing"),
        ("negatives=some", "some"),
        ("loss=infonce-debiased,negatives=shared", "needs all interactions of a user at once"),
        ("loss=ccl-debiased,negatives=shared,draw=users", "does it again"),
    ],
)
def test_settings_without_sense_are_refused(settings, words):
    with pytest.raises(UsageError, match=words):
        build(f"mf[{settings}]", MODELS)


def test_a_loss_that_an_encoder_cannot_take_is_refused():
    for name in ("simplex", "youtubenet"):
        with pytest.raises(UsageError, match="for users with vectors of their own"):
            build(f"{name}[loss=infonce-debiased]", MODELS)
    for loss in papers.LOSSES:
        with pytest.raises(UsageError, match=loss):
            build(f"als[loss={loss}]", MODELS)


@pytest.mark.parametrize("loss", ["softmax", "ials", "bpr"])
def test_rates_that_lead_nowhere_are_named_with_the_epoch(loss):
    wild = some(f"mf[loss={loss}]", rate=1e30, epochs=5)
    words = r"not finite in epoch \d, with rate 1e\+30 and the loss " + loss + r".*; give a smaller"
    with np.errstate(all="ignore"), pytest.raises(RecbenchError, match=words):
        wild.fit(example(), Context())


def test_what_was_handed_out_before_is_kept():
    models = [some("mf[loss=ials]", rate=1e15, epochs=count, clip=0) for count in (1, 9)]
    with np.errstate(all="ignore"):
        first, last = models[0].family.fit(models, example(), Context())
    assert np.isfinite(vectors(first)[0]).all()
    assert isinstance(last, RecbenchError)


def test_memory_is_asked_for_before_anything_is_done():
    words = r"training 5 numbers for 40 users and 12 items \(40 rows at once .*\) needs 0.0 GB"
    with pytest.raises(Refused, match=words):
        some("mf").fit(example(), Context(memory=1000))
    assert some("mf").fit(example(), Context(memory=10**6)).rounds == 3


def test_a_step_has_no_more_rows_than_there_are():
    for text in ("mf", "mf[loss=softmax,negatives=shared]", "youtubenet"):
        assert some(text, batch=10**9).fit(example(), Context(memory=10**6)).rounds == 3


def test_a_penalty_of_nothing_is_nothing_whatever_its_power():
    free, steep = (some("mf", l2_power=power).fit(example(), Context()) for power in (1, 400))
    assert same(free, steep)


class Short(Bce):
    """A loss that forgets the last cell."""

    def grade(self, positives, means):
        grades = super().grade(positives, means)
        return replace(grades, cells=grades.cells[:-1])


class Lost(Bce):
    """A loss that comes to nothing."""

    def grade(self, positives, means):
        return replace(super().grade(positives, means), value=np.nan)


class Blind(Mf):
    """An encoder that does not see the last user of a step."""

    def bind(self, tables, train, pool):
        bound = super().bind(tables, train, pool)
        whole = bound.forward
        bound.forward = lambda batch: whole(batch)._replace(users=whole(batch).users[:-1])
        return bound


@pytest.mark.parametrize(
    ("parts", "says"),
    [
        ({"loss": Short()}, r"`cells` of the grades has shape \(\d+,\) for \d+ cells"),
        ({"loss": Lost()}, "not finite in epoch 1"),
        (
            {"encoder": Blind()},
            r"`forward` has vectors of users of shape \(\d+, 5\) for \d+ of them",
        ),
    ],
)
def test_parts_of_others_that_do_not_fit_are_a_sentence(parts, says):
    with pytest.raises(RecbenchError, match=says):
        replace(some("mf"), **parts).fit(example(60, 12), Context())


def test_newcomers_meet_the_items_of_batches_as_often_as_those_who_were_trained_on():
    train, others = example(40, 12), example(7, 12)
    rows = np.full(7, -1, np.int32)
    half, whole, none = (
        some(f"mf[loss={loss},negatives=batch]").fit(train, Context()).score(others, rows)
        for loss in ("ssm[popularity=0.5]", "ssm", "mine-plus[t=0.12,weight=1]")
    )
    assert np.array_equal(half, whole)
    facing_all = some("mf[loss=ssm]").fit(train, Context())
    assert not np.array_equal(facing_all.score(others, rows), whole)
    assert none.shape == whole.shape


@pytest.mark.parametrize(
    ("text", "idle"),
    [
        ("mf[epochs=20]", {"every", "drawn", "draw", "l2-power", "decay"}),
        ("mf[loss=bpr,l2=1,epochs=30]", {"every"}),
        ("ssm-mf[negatives=batch,patience=1,l2=1,epochs=30]", {"drawn", "popularity"}),
    ],
)
def test_what_changes_nothing_is_known(text, idle):
    assert set(model(text).idle) == idle


@pytest.mark.parametrize("text", [*KINDS, "mf[loss=ssm]", "mf[loss=ials]", "mf[loss=sparsemax]"])
@pytest.mark.parametrize(
    "train",
    [np.zeros((3, 4)), np.ones((1, 1)), np.ones((1, 5)), np.ones((5, 1)), np.eye(5)],
    ids=["no interactions", "one cell", "one user", "one item", "one each"],
)
def test_whatever_the_data_scores_are_finite(text, train):
    matrix = sparse.csr_array(train)
    fit = some(text, batch=1, epochs=2).fit(matrix, Context())
    rows = np.arange(len(train), dtype=np.int32)
    assert np.isfinite(fit.score(matrix, rows)).all()
    assert np.isfinite(fit.score(matrix)).all()
    assert all(np.isfinite(entry["loss"]) for entry in fit.trace)


@pytest.mark.parametrize("shape", [(0, 4), (4, 0)])
def test_nobody_and_nothing_are_refused(shape):
    with pytest.raises(RecbenchError, match="mf needs users and items"):
        some("mf").fit(sparse.csr_array(shape), Context())


def test_more_negatives_than_items_are_all_items():
    for text in ("mf[loss=softmax,negatives=shared]", "mf[loss=bpr]"):
        few, many = (some(text, drawn=drawn).fit(example(), Context()) for drawn in (12, 10**9))
        assert same(few, many)
    whole = some("mf[loss=bpr]", negatives="all").fit(example(), Context())
    assert same(whole, some("mf[loss=bpr]", drawn=12).fit(example(), Context()))


def test_what_is_trained_and_what_ranks_may_be_different_scores():
    training = Training()
    loss = {name: LOSSES.get(name)() for name in ("ccl", "ssm", "softmax", "cml")}
    scores = {name: training.score_for(one) for name, one in loss.items()}
    assert scores == {"ccl": "cosine", "ssm": "cosine", "softmax": "dot", "cml": "distance"}
    ranks = {name: training.ranking_for(one) for name, one in loss.items()}
    assert ranks == {"ccl": "cosine", "ssm": "dot", "softmax": "dot", "cml": "distance"}
    assert Training(score="dot").ranking_for(loss["ccl"]) == "dot"
    assert Training(rank_by="cosine").ranking_for(loss["ssm"]) == "cosine"
    assert Training().ranking_for(LOSSES.get("ssm")(popularity=0.0)) == "cosine"
    popular = trained(build("ials[popularity=0.5]", LOSSES))
    assert Training().ranking_for(popular) == "dot"
    assert Training(score="cosine").ranking_for(popular) == "cosine"  # lengths are its penalty's


def test_scores_are_what_the_ranking_score_makes_of_vectors():
    fits = {
        rank: some("mf[loss=ccl]", rank_by=rank).fit(example(), Context(dtype=np.float64))
        for rank in ("dot", "cosine", "distance")
    }
    users, items = vectors(fits["dot"])
    for rank, fit in fits.items():
        found = fit.score(example(), np.arange(40, dtype=np.int32))
        assert np.allclose(found, papers.scores(rank, users, items), atol=1e-12)


MORTAL = """
import os
import signal
from pathlib import Path

from recbench.models import checkpoint
from recbench.models.trained.training import Epochs

checkpoint.FIRST, checkpoint.SHARE = 0.0, float("inf")
advance = Epochs.advance


def mortal(self, number):
    with Path("epochs.txt").open("a") as file:
        file.write(f"{number} ")
    if number == 7 and not Path("killed").exists():
        Path("killed").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return advance(self, number)


Epochs.advance = mortal
"""


@pytest.mark.slow
@pytest.mark.parametrize("text", ["mf-mine-plus", "lightgcn"])
def test_kill_minus_nine_in_epoch_7_of_10_costs_an_epoch_and_no_byte(folder: Path, own, text):
    (folder / "mortal.py").write_text(MORTAL)
    words = ["run", *own, "-q", "--plugin", "mortal.py", "-m", text]
    settings = ["--set", "epochs=10", "--set", "factors=8", "--set", "batch=32", "-o"]
    command = [sys.executable, "-m", "recbench", *words, *settings]

    def call(output):
        done = subprocess.run([*command, output], capture_output=True, text=True, check=False)
        made = [int(word) for word in (folder / "epochs.txt").read_text().split()]
        (folder / "epochs.txt").unlink()
        return done.returncode, made

    assert call("out") == (-signal.SIGKILL, list(range(1, 8)))
    assert call("out") == (0, list(range(7, 11)))
    assert call("whole") == (0, list(range(1, 11)))
    tables = [(folder / name / "metrics.csv").read_bytes() for name in ("out", "whole")]
    assert tables[0] == tables[1]


def test_operations_are_told_where_products_take_nearly_all_of_the_time():
    train = sparse.csr_array(np.eye(5, 7))
    short, long = build("mf[epochs=2,factors=4]", MODELS), build("mf[epochs=3,factors=4]", MODELS)
    assert long.family.operations([short, long], train, Context()) == 6 * 5 * 7 * 4 * 3
    for text in ("bpr", "lightgcn+softmax", "youtubenet", "mf[negatives=shared]"):
        other = build(text, MODELS)
        assert other.family.operations([other], train, Context()) is None
