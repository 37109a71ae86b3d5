"""Auto-encoders and neumf against their formulas, number by number."""

import numpy as np
import pytest
from scipy import sparse

torch = pytest.importorskip("torch", reason="PyTorch, an extra, is not installed")

from recbench.models.context import Context
from recbench.models.deep import towers
from recbench.models.deep.nets.trainer import Moment, Place
from recbench.models.trained.batches import of_users
from recbench.registry import MODELS, build

HAS = np.array([[1, 0, 1, 1, 0], [0, 1, 0, 0, 0], [0, 0, 0, 0, 0], [1, 1, 0, 0, 1.0]])
TRAIN = sparse.csr_array(HAS.astype(np.float32))
USERS = np.arange(len(HAS))
ALL = [
    "mult-dae[code=3,dropout=0]", "mult-dae[code=3,hidden=4,dropout=0]",
    "mult-vae[code=2,hidden=0,dropout=0,anneal=100]",
    "mult-vae[code=2,hidden=4,dropout=0,anneal=100]",
    "cdae[code=3,dropout=0]", "cdae[code=3,dropout=0,activation=relu,likelihood=gaussian]",
    "neumf[factors=4]", "neumf[factors=3,layers=1,drawn=2]",
]  # fmt: skip
each = pytest.mark.parametrize("text", ALL)


def net_of(text):
    """A net whose numbers are large enough to matter."""
    ctx = Context(seed=4, dtype=np.float64)
    model = build(text, MODELS)
    net = model.net(TRAIN, Place(torch.device("cpu"), ctx))
    with torch.no_grad():
        for number, table in enumerate(net.parameters()):
            drawn = np.random.default_rng(number).standard_normal(table.shape)
            table.copy_(torch.as_tensor(drawn))
    return model, net


def now(step=30):
    return Moment(step, torch.Generator().manual_seed(9))


def rows_of(text, net):
    if not text.startswith("neumf"):
        return USERS
    (rows,) = net.batches(np.random.default_rng(2))
    return rows


def arrays(net):
    return {name: table.detach().numpy() for name, table in net.named_parameters()}


def softplus(x):
    return np.log1p(np.exp(x))


@each
def test_the_gradient_is_that_of_the_loss(text):
    _, net = net_of(text)
    rows = rows_of(text, net)
    net.loss(rows, now()).backward()
    for number, table in enumerate(net.parameters()):
        way = torch.as_tensor(np.random.default_rng(50 + number).standard_normal(table.shape))
        gradient, values = table.grad.to_dense(), []
        for size in (1e-6, -2e-6):
            with torch.no_grad():
                table += size * way
                values.append(float(net.loss(rows, now())))
        with torch.no_grad():
            table += 1e-6 * way
        along = (values[0] - values[1]) / 2e-6
        assert float((gradient * way).sum()) == pytest.approx(along, rel=2e-5, abs=1e-7)


def act(name, x):
    return {"tanh": np.tanh, "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
            "relu": lambda x: np.maximum(x, 0)}[name](x)  # fmt: skip


def code_and_scores(model, net, user, noise=None):
    """The scores of one user by the formula, and what the code costs."""
    p, shape = arrays(net), model.shape
    x = HAS[user].copy()
    if shape.scaled:
        x /= max(np.sqrt((x * x).sum()), 1)
    h, cost = sum(x[i] * p["enter"][i] for i in range(5)) + p["offsets.0"], 0.0
    if shape.personal:
        h = h + p["users"][user]
    for at, width in enumerate(shape.widths):
        if at:
            h = h @ p[f"inner.{at - 1}"] + p[f"offsets.{at}"]
        if at == shape.drawn:
            mean, spread = h[:width], np.exp(h[width:] / 2)
            pairs = zip(mean, spread, strict=True)
            cost = sum(0.5 * (m * m + s * s - 1 - np.log(s * s)) for m, s in pairs)
            h = mean if noise is None else mean + noise[user] * spread
        else:
            h = act(shape.activation, h)
    return p["leave"] @ h + p["last"], cost


@pytest.mark.parametrize("text", [text for text in ALL if "neumf" not in text])
def test_the_loss_of_an_auto_encoder_is_its_formula(text):
    model, net = net_of(text)
    moment = now()
    torch.empty(int(HAS.sum())).uniform_(generator=moment.noise)  # what would be dropped
    noise = torch.empty(4, 2).normal_(generator=moment.noise).numpy()
    expected = 0.0
    for user in USERS:
        scores, cost = code_and_scores(model, net, user, noise)
        if model.shape.likelihood == "multinomial":
            logs = scores - np.log(np.exp(scores).sum())
            expected -= sum(HAS[user, i] * logs[i] for i in range(5))
        elif model.shape.likelihood == "logistic":
            expected += sum(softplus(scores[i]) - HAS[user, i] * scores[i] for i in range(5))
        else:
            expected += sum((scores[i] - HAS[user, i]) ** 2 for i in range(5)) / 2
        expected += min(model.shape.beta, 30 / 100) * cost
    assert float(net.loss(USERS, now()).detach()) == pytest.approx(expected / 4, rel=1e-9)


@pytest.mark.parametrize("text", [text for text in ALL if "neumf" not in text])
def test_an_auto_encoder_ranks_by_its_formula_and_folds_anybody_in(text):
    model, net = net_of(text)
    base = net.base()
    known = base.score(TRAIN, USERS.astype(np.int32))
    for user in USERS:
        np.testing.assert_allclose(known[user], code_and_scores(model, net, user)[0], rtol=1e-9)
    strangers = base.score(TRAIN, np.full(4, -1, np.int32))
    if model.shape.personal:
        assert not np.allclose(strangers, known)
        net.users.data.zero_()
        known = net.base().score(TRAIN, USERS.astype(np.int32))
    np.testing.assert_allclose(strangers, known, rtol=1e-12)


def test_what_is_dropped_makes_up_for_it_in_what_is_kept():
    _, net = net_of("mult-dae[code=3,dropout=0.5]")
    net.offsets[0].data.zero_()
    batch = of_users(net.pattern, USERS)
    noise = now().noise
    some = [net._entered(batch, Moment(0, noise)).detach().numpy() for _ in range(400)]
    whole = np.array([x @ arrays(net)["enter"] / max(np.sqrt(x.sum()), 1) for x in HAS])
    spread = np.std(some, axis=0) / 20
    assert (np.abs(np.mean(some, axis=0) - whole) <= 5 * spread + 1e-12).all()
    assert spread[0].min() > 0


def test_the_divergence_comes_in_with_the_steps_up_to_beta():
    _, net = net_of("mult-vae[code=2,hidden=0,dropout=0,anneal=100,beta=0.2]")
    first, early, late, later = (float(net.loss(USERS, now(s)).detach()) for s in (0, 10, 20, 99))
    assert early - first == pytest.approx((late - first) / 2)
    assert late == later > first


def test_neumf_is_its_formula_for_every_pair():
    _, net = net_of("neumf[factors=4]")
    p = arrays(net)
    users, items = np.repeat(USERS, 5), np.tile(np.arange(5), 4)
    expected = np.empty((4, 5))
    for user, item in zip(users, items, strict=True):
        value = (p["users"][user] * p["items"][item] * p["product"][:, 0]).sum()
        h = np.concatenate([p["tower_users"][user], p["tower_items"][item]])
        h = h @ np.concatenate([p["of_users"], p["of_items"]]) + p["first"]
        for at in range(3):
            h = np.maximum(h, 0) @ p[f"inner.{at}"] + p[f"offsets.{at}"]
        expected[user, item] = value + h[0]
    assert [table.shape for table in net.inner] == [(4, 2), (2, 1), (1, 1)]
    split = net.scores(torch.as_tensor(users), torch.as_tensor(items)[:, None])
    np.testing.assert_allclose(split.detach().numpy().reshape(4, 5), expected, rtol=1e-9)
    ranked = net.base().score(TRAIN, USERS.astype(np.int32))
    np.testing.assert_allclose(ranked, expected, rtol=1e-9)
    rows = rows_of("neumf", net)
    assert rows.shape == (7, 6)
    loss = np.mean([
        softplus(-expected[row[0], row[1]]) + softplus(expected[row[0], row[2:]]).sum()
        for row in rows
    ])  # fmt: skip
    assert float(net.loss(rows, now()).detach()) == pytest.approx(loss, rel=1e-9)


@pytest.mark.parametrize("drawn", [2, 1000])
def test_neumf_faces_items_that_the_user_does_not_have(drawn):
    _, net = net_of(f"neumf[factors=3,drawn={drawn},batch=3]")
    epochs = [np.concatenate([*net.batches(np.random.default_rng(seed))]) for seed in (1, 2)]
    for rows in epochs:
        assert sorted(map(tuple, rows[:, :2])) == sorted(zip(*np.nonzero(HAS), strict=True))
        assert not HAS[rows[:, :1], rows[:, 2:]].any()
    assert not np.array_equal(*epochs)


def test_neumf_ranks_panels_as_it_ranks_all(monkeypatch):
    _, net = net_of("neumf[factors=4]")
    base = net.base()
    whole = base.score(TRAIN, USERS.astype(np.int32))
    monkeypatch.setattr(towers, "PANEL", 2)
    np.testing.assert_allclose(base.score(TRAIN, USERS.astype(np.int32)), whole, rtol=1e-12)
