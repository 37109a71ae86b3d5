"""Every loss in every setting: its value as papers write it, its slope by differences."""

from itertools import product

import numpy as np
import pytest

import papers
from recbench.linalg import blas
from recbench.linalg.normal import Pattern
from recbench.linalg.responses import Room
from recbench.models.factors.losses import QuadraticLoss
from recbench.models.trained import encoders
from recbench.models.trained.batches import Batch, Draws, users_at_once
from recbench.models.trained.contrast import SglEd
from recbench.models.trained.encoders import Mf
from recbench.models.trained.histories import Simplex, YoutubeNet
from recbench.models.trained.losses.quadratic import trained
from recbench.models.trained.steps import BOUNDARY, MARGINS, Problem, learned, step
from recbench.registry import LOSSES, build

FACTORS = 4
QUADRATIC = [name for name in LOSSES.names() if issubclass(LOSSES.get(name), QuadraticLoss)]
POPULAR = ["ials[popularity=0.7]", "mse[popularity=0.5]", "rg2-ssm[popularity=1]"]
PRINTED = "ccl-debiased[weight=0.6,margin=0.1,alpha=0.3,alike=interactions]"
READ = [*papers.LOSSES.values(), PRINTED]
"""What papers write, in every way it is read."""
ALL = [*READ, *QUADRATIC, *POPULAR]
DRAWN = {"all": 1, "shared": 4, "own": 3, "batch": 1}
"""How interactions may face items, and how many of them."""


@pytest.fixture(autouse=True, scope="module")
def pool():
    with blas.workers() as Bench.pool:
        yield


class Bench:
    """A loss on an encoder with tables in float64, ready to make one step after the other."""

    pool = None

    def __init__(self, text, encoder, train=None, score=None, l2=0.0, power=1.0):
        self.loss = trained(build(text, LOSSES))
        self.train = papers.world() if train is None else train
        self.pattern, self.score = Pattern.of(self.train), score or self.loss.score
        draw = np.random.default_rng(1)
        tables = encoder.tables(self.train.shape, FACTORS, draw)
        tables |= learned(self.loss, self.score, self.train.shape, FACTORS)
        self.tables = {name: table.astype(np.float64) for name, table in tables.items()}
        for name in {BOUNDARY, *MARGINS, "bias"} & set(self.tables):
            self.tables[name][:] = draw.random(self.tables[name].shape)
        dtype = np.dtype(np.float64)
        self.problem = Problem.of(self.loss, self.pattern, self.score, dtype, l2, power)
        self.bound, self.room = encoder.bind(self.tables, self.train, self.pool), Room()

    def batch(self, engine):
        """Users with all items, or all interactions and what they face."""
        draw = np.random.default_rng(2)
        if engine == "users":
            (batch,) = users_at_once(self.pattern, 100, draw)
        else:
            draws = Draws(100, False, engine, DRAWN[engine], self.loss.unseen)
            (batch,) = draws.batches(self.pattern, draw)
        return batch

    def step(self, batch):
        self.bound.begin(np.random.default_rng(3))
        return step(self.problem, self.bound, self.tables, batch, self.pool, self.room)

    def outcome(self, batch):
        """The value, and the derivatives by every number of every table."""
        outcome = self.step(batch)
        found = {name: np.zeros_like(table) for name, table in self.tables.items()}
        for name, gradient in outcome.gradients.items():
            found[name][slice(None) if gradient.rows is None else gradient.rows] = gradient.values
        return outcome.value, found

    def slope(self, batch, towards):
        """The derivative of the value in a direction, by differences of fourth order."""
        start = {name: table.copy() for name, table in self.tables.items()}
        values = {}
        for times in (-2, -1, 1, 2):
            for name, table in self.tables.items():
                table[...] = start[name] + times * 1e-5 * towards[name]
            values[times] = self.step(batch).value
        for name, table in self.tables.items():
            table[...] = start[name]
        return (8 * (values[1] - values[-1]) - (values[2] - values[-2])) / 12e-5

    def check(self, batch):
        """Every table on its own, in a direction in which every number changes."""
        _, found = self.outcome(batch)
        for name, gradient in found.items():
            draw = np.random.default_rng(4)
            towards = {other: np.zeros_like(table) for other, table in self.tables.items()}
            towards[name] = draw.standard_normal(gradient.shape)
            expected, ours = self.slope(batch, towards), (gradient * towards[name]).sum()
            assert ours == pytest.approx(expected, rel=1e-7, abs=1e-8), name
        return found

    def paper(self, batch):
        """What the loss comes to, one interaction after the other."""
        vectors = self.tables["users"], self.tables["items"]
        margins = tuple(self.tables[name] for name in MARGINS) if self.loss.margins else None
        world = papers.World(
            self.loss, self.train, self.score, *vectors, self.tables.get(BOUNDARY), margins
        )
        values = []
        for row, u in enumerate(batch.users):
            for i in batch.items_of_cells[batch.starts[row] : batch.starts[row + 1]]:
                everything = batch.columns is None
                faced = np.arange(world.n)
                if not everything:
                    columns = batch.columns if batch.columns.ndim == 1 else batch.columns[row]
                    faced = batch.items[columns]
                values.append(world.of(u, i, faced, everything=everything))
        return np.mean(values)


def fits(text, engine):
    """Whether the loss may be trained this way."""
    loss = trained(build(text, LOSSES))
    return not (loss.pairs and engine == "users") and not (loss.whole and engine != "users")


def engines(texts):
    return [(t, e) for t, e in product(texts, ["users", *DRAWN]) if fits(t, e)]


MF = Mf(init=0.6)


def test_every_loss_is_here():
    ours = [name for name in LOSSES.names() if LOSSES.source(name).startswith("recbench ")]
    assert sorted([*papers.LOSSES, *QUADRATIC]) == ours  # other tests register some of their own


@pytest.mark.parametrize("score", ["dot", "cosine", "distance"])
@pytest.mark.parametrize(("text", "engine"), engines(READ))
def test_a_loss_is_what_its_paper_writes(text, engine, score):
    bench = Bench(text, MF, score=score)
    batch = bench.batch(engine)
    assert bench.step(batch).value == pytest.approx(bench.paper(batch), rel=1e-11)


@pytest.mark.parametrize(("text", "engine"), engines(ALL))
def test_a_gradient_is_the_slope_of_the_value(text, engine):
    bench = Bench(text, MF, l2=0.3)
    found = bench.check(bench.batch(engine))
    assert all(gradient.any() for gradient in found.values())


@pytest.mark.parametrize("score", ["dot", "cosine", "distance"])
@pytest.mark.parametrize("text", ["softmax", "uib", "ials"])
def test_through_every_score(text, score):
    bench = Bench(text, MF, score=score)
    for engine in ("users", "own"):
        bench.check(bench.batch(engine))


ENCODERS = [
    encoders.LightGcn(layers=2, init=0.6),
    encoders.LightGcn(layers=1, init=0.6),
    SglEd(layers=2, init=0.6, dropped=0.4),
    YoutubeNet(init=0.6),
    *(
        Simplex(own=0.3, init=0.6, gather=gather, tables_for=source)
        for gather, source in product(("mean", "attention"), ("shared", "own"))
    ),
]


@pytest.mark.parametrize("encoder", ENCODERS, ids=lambda e: f"{type(e).__name__}-{e.text}")
@pytest.mark.parametrize("text", ["softmax[t=0.7]", "sml[weight=0.3]", "ials"])
def test_through_every_encoder(text, encoder):
    bench = Bench(text, encoder, l2=0.3)
    for engine in ("shared", "own", "all") if encoder.history else ("users", "own", "batch"):
        if fits(text, engine):
            found = bench.check(bench.batch(engine))
            assert all(gradient.any() for gradient in found.values())


def together(bench, batches, chances=None):
    """Value and gradients of the mean over some batches, which may have chances to come."""
    values, gradients = zip(*map(bench.outcome, batches), strict=True)
    mean = {
        name: np.average([g[name] for g in gradients], axis=0, weights=chances)
        for name in gradients[0]
    }
    return np.average(values, weights=chances), mean


def same(one, other):
    assert one[0] == pytest.approx(other[0], rel=1e-11)
    for name in one[1]:
        assert np.allclose(one[1][name], other[1][name], rtol=1e-9, atol=1e-12), name


@pytest.mark.parametrize(
    "text", [text for text in ALL if fits(text, "users") and fits(text, "all")]
)
def test_by_user_is_by_interaction(text):
    """Of those who have something: some squares of least squares are of all users."""
    bench = Bench(text, MF, papers.everybody(), l2=0.3)
    same(*(together(bench, [bench.batch(engine)]) for engine in ("users", "all")))


def test_blocks_of_users_come_to_the_whole():
    bench = Bench("softmax", MF, papers.everybody(), l2=0.3)
    batches = list(users_at_once(bench.pattern, 2, np.random.default_rng(0)))
    assert len(batches) == 3
    shares = [batch.interactions / bench.train.nnz for batch in batches]
    value = sum(s * bench.step(b).value for s, b in zip(shares, batches, strict=True))
    assert value == pytest.approx(bench.step(bench.batch("users")).value, rel=1e-12)


CURVED = ("rg2-matrix", "rgx-exact")
"""One has its penalty on scores; the other the square of a mean, which draws make larger."""
FREE = ["rg2-matrix", *(f"{name}[l2=0]" for name in QUADRATIC if name not in CURVED)]
"""Without penalties: items that do not take part have theirs only where all are at hand."""
FREE += [f"{text.removesuffix(']')},l2=0]" for text in POPULAR]
LINEAR = ["ccl", "ccl-debiased", "bce", "uib", "bpr", "sml"]
"""Losses that are linear in what is drawn: their mean over draws is the loss against all."""


def facing(bench, columns):
    """All interactions, held against these items."""
    batch = bench.batch("all")
    items = np.arange(bench.pattern.width, dtype=np.int32)
    return Batch(batch.users, batch.starts, batch.cells, items, columns.astype(np.int32))


@pytest.mark.parametrize("text", [*(papers.LOSSES[name] for name in LINEAR), PRINTED, *FREE])
@pytest.mark.parametrize("engine", ["shared", "own"])
def test_drawn_items_come_to_all_items_on_average(text, engine):
    """Over every item that can be drawn."""
    bench = Bench(text, MF, papers.everybody())
    drawn = np.arange(papers.ITEMS)[:, None]
    if engine == "own":  # one interaction's do not depend on another's
        drawn = np.tile(drawn[:, None], (1, bench.train.nnz, 1))
    sampled = together(bench, [facing(bench, columns) for columns in drawn], bench.problem.weights)
    same(sampled, together(bench, [bench.batch("all")]))


def test_items_weigh_by_their_popularity_where_the_loss_says_so():
    counts = papers.everybody().sum(axis=0)
    for text in ("ssm[popularity=0.5]", "ials[popularity=0.5]", "rgx-ssm[popularity=0.5]"):
        found = Bench(text, MF, papers.everybody()).problem.weights
        assert np.allclose(found, counts**0.5 / (counts**0.5).sum(), rtol=1e-12)
    assert Bench("ials", MF, papers.everybody()).problem.weights is None


@pytest.mark.parametrize("name", ["softmax", "mine", "mine-plus", "infonce", "ssm"])
def test_the_more_is_drawn_the_nearer_is_the_loss_against_all(name):
    """The logarithm of a mean of few is too small on average; of very many it is right."""
    text = "ssm[t=0.5,popularity=0]" if name == "ssm" else papers.LOSSES[name]
    bench, draw = Bench(text, MF, papers.everybody()), np.random.default_rng(5)
    exact = bench.step(bench.batch("all")).value
    errors = []
    for number, times in ((2, 60), (20000, 1)):
        batches = [facing(bench, draw.integers(papers.ITEMS, size=number)) for _ in range(times)]
        errors.append(together(bench, batches)[0] - exact)
    assert errors[0] < -0.03
    assert abs(errors[1]) < 0.01


def test_users_alike_are_users_who_are_drawn_first():
    """The printed formula for one of a user's interactions, each user with the same chance."""
    text = "ccl-debiased[weight=0.6,margin=0.1,alike={}]".format
    by_interaction = Bench(text("interactions"), MF, papers.everybody())
    batches = list(users_at_once(by_interaction.pattern, 1, np.random.default_rng(0)))
    value, gradients = together(by_interaction, batches)
    bench = Bench(text("users"), MF, papers.everybody())
    times = np.prod(bench.train.shape) / bench.train.nnz
    drawn = times * value, {name: times * gradient for name, gradient in gradients.items()}
    same(together(bench, [bench.batch("users")]), drawn)


@pytest.mark.parametrize("name", ["softmax", "infonce", "ccl", "bpr", "uib"])
def test_facing_every_item_twice_is_facing_all(name):
    bench = Bench(papers.LOSSES[name], MF, papers.everybody())
    twice = facing(bench, np.tile(np.arange(papers.ITEMS), 2))
    same(together(bench, [twice]), together(bench, [bench.batch("all")]))


def test_what_is_penalised_are_both_vectors_of_every_interaction():
    """In any batch with rows of its own; by user on the whole."""
    for engine in ("users", "all", "own", "batch"):
        plain, bench = (Bench("bce", MF, papers.everybody(), l2=l2) for l2 in (0.0, 0.3))
        batch = bench.batch(engine)
        users, items = (bench.tables[name] for name in ("users", "items"))
        u, i = bench.train.nonzero()
        expected = 0.3 / 2 * ((users[u] ** 2).sum(axis=1) + (items[i] ** 2).sum(axis=1)).mean()
        found = bench.step(batch).value - plain.step(batch).value
        assert found == pytest.approx(expected, rel=1e-10), engine


@pytest.mark.parametrize("power", [0.0, 0.5, 2.0])
@pytest.mark.parametrize("engine", ["users", "all", "own", "batch"])
def test_penalties_by_a_power_of_interactions(engine, power):
    """A vector with c interactions has those of (c / mean)^power times the mean."""
    world = papers.everybody()
    plain = Bench("bce", MF, world)
    bench = Bench("bce", MF, world, l2=0.3, power=power)
    batch, expected = bench.batch(engine), 0.0
    for axis, name in enumerate(("users", "items")):
        counts = np.asarray(world.sum(axis=1 - axis)).ravel()
        for vector, count in zip(bench.tables[name], counts, strict=True):
            weight = counts.mean() * (count / counts.mean()) ** power if count else 0
            expected += 0.3 / 2 * weight * (vector @ vector) / world.nnz
    found = bench.step(batch).value - plain.step(batch).value
    assert found == pytest.approx(expected, rel=1e-10)
    bench.check(batch)


def test_newcomers_are_penalised_by_the_mean_of_those_trained_on():
    bench = Bench("bce", MF, papers.everybody(), l2=0.3, power=0.5)
    again = bench.problem.without_users().with_users(bench.pattern)
    assert np.array_equal(again.user_ridge, bench.problem.user_ridge)
    few = Pattern.of(bench.train[:2])
    assert np.allclose(
        bench.problem.with_users(few).user_ridge, bench.problem.user_ridge[:2], rtol=1e-15
    )


def test_nothing_at_all_is_no_reason_to_fail():
    bench = Bench("softmax", MF, papers.world() * 0, l2=0.3)
    bench.train.eliminate_zeros()
    bench = Bench("softmax", MF, bench.train, l2=0.3)
    outcome = bench.step(bench.batch("users"))
    assert outcome.value == 0
    assert not any(gradient.values.any() for gradient in outcome.gradients.values())
