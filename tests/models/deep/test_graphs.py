"""Graph models that PyTorch trains: what they make of a table, its derivatives, what they find."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

import gnn
import papers
from recbench.errors import RecbenchError, Refused, UsageError
from recbench.linalg import blas
from recbench.models.base import fit_together
from recbench.models.context import Context
from recbench.models.contract import example
from recbench.registry import MODELS, build

torch = pytest.importorskip("torch", reason="needs the extra: pip install torch")

from recbench.models.deep.nets import dgcf
from recbench.models.deep.nets.dgcf import correlation, distances
from recbench.models.deep.nets.edges import Edges
from recbench.models.deep.nets.trainer import Epochs, Moment, Place

KINDS = [
    "ngcf[layers=3]",
    "ngcf[form=paper]",
    "gat[heads=2]",
    "gat[heads=1,layers=1]",
    "pinsage",
    "dgcf[intents=2]",
    "dgcf[intents=3,layers=2,iterations=3]",
    "dgcf[intents=1,iterations=1]",
    "ngcf[negatives=shared,drawn=5]",
    "pinsage[negatives=shared,drawn=100]",
    "gat[heads=2,drawn=3]",
]
each = pytest.mark.parametrize("text", KINDS)
one_of_each = pytest.mark.parametrize(
    "text", ["ngcf", "gat[heads=2]", "pinsage", "dgcf[intents=2]"]
)


def some(text, **settings):
    """A model of few numbers, with settings instead of those it has."""
    made = build(text.replace("[", "[factors=6,") if "[" in text else f"{text}[factors=6]", MODELS)
    given = {"epochs": 3, "batch": 50, **settings}
    return type(made).of(**{**made.values(), **given})


def net_of(model, train, seed=0):
    place = Place(torch.device("cpu"), Context(seed=seed, dtype=np.float64))
    net = model.net(train, place)
    with torch.no_grad():  # biases, too, are to matter
        draw = np.random.default_rng(1)
        for table in net.parameters():
            table.add_(place.tensor(0.3 * draw.standard_normal(tuple(table.shape))))
    return net


def numbers(net):
    return {name: table.detach().numpy() for name, table in net.named_parameters()}


def vectors(scorer):
    return np.concatenate([scorer.base.users, scorer.base.items])


@each
def test_layers_make_what_papers_write(text):
    """Of users and items without interactions, too."""
    model, train = some(text), papers.world()
    net = net_of(model, train)
    slow = getattr(gnn, model.name)(train, numbers(net), model.shape)
    base = net.base()
    assert np.allclose(np.concatenate([base.users, base.items]), slow, atol=1e-12)


@each
def test_vectors_of_some_nodes_are_those_among_all(text):
    net, nodes = net_of(some(text), papers.world()), torch.tensor([2, 3, 8, 9, 12])
    assert torch.allclose(net.vectors(None, nodes), net.vectors(None)[nodes])


@each
def test_derivatives_of_the_loss_are_differences(text):
    train = papers.world()
    net = net_of(some(text, l2=0.1), train)
    rows = np.array([[0, 7, 9, 8, 8], [4, 12, 9, 7, 9], [4, 8, 9, 9, 11], [5, 10, 9, 11, 12]])
    rows = rows[:, : 2 if net.for_step else 2 + net.drawn]

    def loss():
        return net.loss(rows, Moment(0, torch.Generator().manual_seed(3)))

    loss().backward()
    draw = np.random.default_rng(2)
    for name, table in net.named_parameters():
        flat, slope = table.data.view(-1), table.grad.view(-1)
        for place in draw.choice(len(flat), min(3, len(flat)), replace=False):
            ends = []
            for step in (1e-5, -2e-5):
                flat[place] += step
                ends.append(loss().item())
            flat[place] += 1e-5
            assert slope[place] == pytest.approx((ends[0] - ends[1]) / 2e-5, abs=2e-6), name


@pytest.mark.parametrize("loops", [False, True])
def test_numbers_of_edges_are_cells_of_a_matrix(loops):
    """And their derivatives are those of the matrix."""
    train = papers.world()
    edges = Edges(train, "cpu", torch.float64, loops=loops)
    near = gnn.neighbours(train, loops=loops)
    draw = torch.Generator().manual_seed(0)
    x, y = (torch.randn(edges.nodes, 2, dtype=torch.float64, generator=draw) for _ in "xy")
    values = torch.randn(len(edges.tails), dtype=torch.float64, generator=draw)
    dense = torch.zeros(edges.nodes, edges.nodes, dtype=torch.float64)
    cells = [v for v, others in enumerate(near) for _ in others], [w for some in near for w in some]
    dense[cells] = values
    assert torch.allclose(edges.sum(values, x), dense @ x)
    assert torch.allclose(edges.products(x, y), (x @ y.T)[cells])
    dense[cells] = values.exp()
    assert torch.allclose(edges.shares(values), (dense / dense.sum(dim=1, keepdim=True))[cells])
    for each in (values, x, y):
        each.requires_grad_()
    for function, *given in (
        (edges.sum, values, x), (edges.products, x, y), (edges.shares, values), (edges.means(), x)
    ):  # fmt: skip
        assert torch.autograd.gradcheck(function, given)


@pytest.mark.parametrize(
    ("entries", "makes"),
    [
        ((512, 4), lambda x: correlation(distances(x), distances(2 * x.tanh()))),
        ((4, 270_001), lambda x: (dgcf._shares(x) * x.detach()).sum(dim=0)),
    ],
)
def test_what_threads_would_round_in_their_own_way_is_put_together_otherwise(entries, makes):
    draw = torch.Generator().manual_seed(1)
    given, before, found = torch.randn(entries, generator=draw), torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            x = given.clone().requires_grad_(True)
            value = makes(x)
            value.backward(torch.ones_like(value))
            found.append((value.detach().numpy().tobytes(), x.grad.numpy().tobytes()))
    finally:
        torch.set_num_threads(before)
    assert found[0] == found[1] == found[2]


def test_the_distance_correlation_is_that_of_its_definition():
    one, other = np.random.default_rng(0).standard_normal((2, 9, 3))
    found = correlation(*(distances(torch.as_tensor(x)) for x in (one, other)))
    assert found.item() == pytest.approx(gnn.correlation(one, other), abs=1e-4)
    assert correlation(distances(torch.as_tensor(one)), distances(torch.as_tensor(2 * one))) > 0.999


def test_intents_are_kept_apart():
    """A larger weight leaves them with less to do with each other."""

    def alike(weight):
        text = f"dgcf[intents=2,independence={weight}]"
        found = vectors(some(text, epochs=8, batch=200, rate=0.1).fit(example(), Context()))
        return gnn.correlation(*np.split(found.astype(float), 2, axis=1))

    assert alike(100) < 0.8 * alike(0)


@one_of_each
def test_two_blocks_are_found(text):
    """Users are to like all of their block, although they have only part of it."""
    users, items = np.arange(24), np.arange(10)
    alike = np.equal.outer(users % 2, items % 2)
    drawn = np.random.default_rng(0).random(alike.shape) < 0.6
    train = sparse.csr_array((alike & drawn).astype(np.float32))
    model = some(text, epochs=40, batch=200, rate=0.02)
    model = replace(model, shape=replace(model.shape, factors=24))  # ReLUs of a few may all die
    fitted = model.fit(train, Context())
    best = np.argsort(-fitted.score(train, users.astype(np.int32)), axis=1)[:, :5]
    assert np.mean(best % 2 == users[:, None] % 2) > 0.93  # by chance it would be half


@one_of_each
def test_a_seed_is_a_fit(text):
    fits = [some(text).fit(example(), Context(seed=seed)) for seed in (1, 1, 2)]
    one, again, other = map(vectors, fits)
    assert np.array_equal(one, again)
    assert not np.array_equal(one, other)


@one_of_each
def test_epochs_of_a_grid_are_those_of_fits_alone(text):
    models = [some(text, epochs=epochs) for epochs in (1, 3)]
    grid = fit_together(models, example(), Context())
    alone = [model.fit(example(), Context()) for model in models]
    assert all(map(np.array_equal, map(vectors, grid), map(vectors, alone)))


@one_of_each
def test_training_goes_on_from_what_it_saved(text):
    model, ctx = some(text), Context()
    with blas.workers() as pool:

        def begun():
            net = model.net(example(), Place(torch.device("cpu"), ctx))
            return Epochs(net, model.name, model.training, pool, ctx)

        whole, later = begun(), begun()
        whole.advance(1)
        later.restore({name: array.copy() for name, array in whole.state().items()})
        whole.advance(2)
        later.advance(2)
        assert np.array_equal(vectors(whole.look()), vectors(later.look()))


def test_dropout_matters_to_training_alone():
    kept, some_left_out = (net_of(some("ngcf", dropout=share), example()) for share in (0, 0.5))
    assert np.array_equal(kept.base().users, some_left_out.base().users)
    rows, now = np.array([[0, 40, 41]]), Moment(0, torch.Generator().manual_seed(0))
    assert kept.loss(rows, now).item() != some_left_out.loss(rows, now).item()


def test_steps_hold_what_a_user_has_against_what_he_has_not():
    train = example()
    net = net_of(some("ngcf", batch=64), train)
    batches = list(net.batches(np.random.default_rng(0)))
    assert [len(rows) for rows in batches] == [64] * -(-train.nnz // 64)
    users, items, others = np.concatenate(batches).T
    dense = train.toarray() != 0
    assert dense[users, items - 40].all()
    assert not dense[users, others - 40].any()


def penalty_of(vectors, l2):
    """Of pairs, and the mean of what they are held against."""
    users, items, others = (np.sum(each**2, axis=-1) for each in vectors)
    return l2 / 2 * (np.mean(users + items) + np.mean(others))


@pytest.mark.parametrize("text", ["pinsage[l2=0.3]", "pinsage[l2=0.3,drawn=4]"])
def test_the_loss_is_a_mean_over_items_of_ones_own(text):
    net = net_of(some(text), papers.world())
    rows = next(iter(net.batches(np.random.default_rng(0))))
    nodes = np.concatenate([net.base().users, net.base().items])
    user, item, others = nodes[rows[:, :1]], nodes[rows[:, 1:2]], nodes[rows[:, 2:]]
    slow = np.mean(np.log1p(np.exp((user * (others - item)).sum(axis=-1))))
    table = net.nodes.detach().numpy()
    slow += penalty_of([table[rows[:, 0]], table[rows[:, 1]], table[rows[:, 2:]]], 0.3)
    net.shape = replace(net.shape, dropout=0)
    found = net.loss(rows, Moment(0, torch.Generator())).item()
    assert found == pytest.approx(slow, abs=1e-12)


def test_items_that_are_drawn_for_a_step_are_those_of_all_its_parts():
    """If as many are drawn as there are, each is faced once."""
    train = papers.world()
    for drawn, sides in ((4, 2), (train.shape[1], 1), (99, 1)):
        net = net_of(some(f"pinsage[negatives=shared,drawn={drawn},dropout=0,l2=0.3]"), train)
        rows, noise = next(iter(net.batches(np.random.default_rng(0)))), torch.Generator()
        assert rows.shape[1] == 2
        whole = [net.loss(rows, Moment(step, noise)).item() for step in (0, 1)]
        parts = [net.loss(part, Moment(0, noise)).item() for part in (rows[:4], rows[4:])]
        assert whole[0] == pytest.approx(np.average(parts, weights=[4, len(rows) - 4]), abs=1e-12)
        assert len({round(value, 9) for value in whole}) == sides
    users, items, table = net.base().users, net.base().items, net.nodes.detach().numpy()
    own, every = rows[:, 0], items[None]
    user, item = users[own][:, None], items[rows[:, 1] - len(users)][:, None]
    slow = np.mean(np.log1p(np.exp((user * (every - item)).sum(axis=-1))))
    slow += penalty_of([table[own], table[rows[:, 1]], table[len(users) :]], 0.3)
    assert whole[0] == pytest.approx(slow, abs=1e-12)


def test_somebody_who_was_not_trained_on_is_refused():
    fitted = some("ngcf").fit(example(), Context())
    with pytest.raises(Refused, match="use a split that holds out interactions"):
        fitted.score(example(), np.full(40, -1, np.int32))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ngcf[layers=0]", "'layers' is 0"),
        ("ngcf[form=both]", "code"),
        ("ngcf[negatives=batch]", "own"),
        ("ngcf[drawn=0]", "'drawn' is 0"),
        ("ngcf[decay-at=soon]", "'decay-at' is soon; it must be never"),
        ("pinsage[dropout=1]", "'dropout' is 1"),
        ("dgcf[intents=3]", "give factors=66, or other intents"),
        ("gat[heads=5,factors=12]", "give factors=15, or other heads"),
        ("dgcf[iterations=0]", "'iterations' is 0"),
        ("dgcf[independence=-1]", "'independence' is -1"),
    ],
)
def test_what_makes_no_sense_is_refused(text, words):
    with pytest.raises(UsageError) as error:
        build(text, MODELS)
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("text", "bytes_"), [("dgcf[intents=6,layers=100]", 4_000_000), ("ngcf[drawn=20]", 200_000)]
)
def test_too_little_memory_is_a_sentence(text, bytes_):
    with pytest.raises(Refused, match="fewer or narrower layers"):
        some(text).fit(example(), Context(memory=bytes_))


def test_what_rate_is_too_high_for_ends_in_a_sentence():
    with pytest.raises(RecbenchError, match=r"not finite in epoch .*smaller rate"):
        some("pinsage", rate=1e30).fit(example(), Context())
