"""Trained models as their papers write them: cell by cell, with loops, in float64.

Nothing here is taken from the package but parameters by their names.
"""

from types import SimpleNamespace

import numpy as np
from scipy import sparse

LOSSES = {
    "softmax": "softmax[t=0.7]",
    "mine": "mine[t=0.6]",
    "mine-plus": "mine-plus[t=0.4,weight=1.3]",
    "ssm": "ssm[t=0.5,weight=0.9,popularity=0.7]",
    "infonce": "infonce[t=0.5,against=9]",
    "infonce-debiased": "infonce-debiased[t=0.8,weight=7,alpha=0.2]",
    "sparsemax": "sparsemax",
    "ccl": "ccl[weight=3,margin=0.1]",
    "ccl-debiased": "ccl-debiased[weight=0.6,margin=0.1,alpha=0.3]",
    "bce": "bce[weight=2]",
    "uib": "uib[alpha=3]",
    "bpr": "bpr",
    "cml": "cml[margin=0.8]",
    "sml": "sml[weight=0.3,widen=0.2]",
}
"""Every loss that no least squares minimise, with parameters that make each of its terms matter."""

USERS, ITEMS = 7, 6


def world() -> sparse.csr_array:
    """A train matrix with a user and an item that have nothing, and a user who has nearly all."""
    dense = np.random.default_rng(0).random((USERS, ITEMS)) < 0.45
    dense[3], dense[4] = False, True
    dense[:, 2] = False
    dense[1, 0] = True
    return sparse.csr_array(dense.astype(np.float64))


def everybody() -> sparse.csr_array:
    """The same without who has nothing."""
    return sparse.csr_array(world().toarray()[[0, 1, 2, 4, 5, 6]])


def scores(kind, users, items):
    """s_ui of some vectors."""
    if kind == "cosine":
        users, items = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (users, items))
    if kind == "distance":
        return -((users[:, None] - items[None]) ** 2).sum(axis=2)
    return users @ items.T


def nearest(x):
    """The Euclidean projection to the simplex: by bisection, where the shift is."""
    low, high = x.min() - 1, x.max()
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if np.maximum(x - middle, 0).sum() > 1 else (low, middle)
    return np.maximum(x - low, 0), low


def softplus(x):
    return np.logaddexp(0, x)


def logs(c):
    """log E_j e^(s_uj / t)."""
    return np.log(np.mean(np.exp(c.x / c.t)))


def infonce(c):
    own = np.exp(c.s / c.t)
    return -np.log(own / (own + c.against * np.mean(np.exp(c.x / c.t))))


def infonce_debiased(c):
    rest = (np.mean(np.exp(c.x / c.t)) - c.tau * np.mean(np.exp(c.mine / c.t))) / (1 - c.tau)
    own = np.exp(c.s / c.t)
    return -np.log(own / (own + c.weight * max(rest, np.exp(-1 / c.t))))


def sparsemax(c):
    kept, shift = nearest(c.x)
    return -c.s + np.sum(c.x[kept > 0] ** 2 - shift**2) / 2 + 0.5


def ccl_debiased(c):
    over, own = (np.maximum(y - c.margin, 0).mean() for y in (c.x, c.mine))
    value = c.tau * (1 - c.s) + c.weight * (over - c.tau * own)
    return value / c.tau if c.alike == "users" else value


def cml(c):
    """What the user has is not held against him, wherever it comes from."""
    intrusions = [y - c.s + c.margin for y, has in zip(c.x, c.has, strict=True) if not has]
    weight = np.log(1 + c.n * sum(y > 0 for y in intrusions) / len(c.x))
    return weight * max([0, *intrusions])


def sml(c):
    users = np.mean(np.maximum(c.x - c.s + c.margins[0], 0))
    items = np.mean(np.maximum(c.between - c.s + c.margins[1], 0))
    return users + c.weight * items - c.widen * sum(c.margins)


FORMULAS = {
    "softmax": lambda c: np.log(c.n) + logs(c) - c.s / c.t,
    "mine": lambda c: logs(c) - c.s / c.t,
    "mine-plus": lambda c: c.weight * logs(c) - c.s / c.t,
    "ssm": lambda c: c.weight * np.log(c.chances @ np.exp(c.x / c.t)) - c.s / c.t,
    "infonce": infonce,
    "infonce-debiased": infonce_debiased,
    "sparsemax": sparsemax,
    "ccl": lambda c: 1 - c.s + c.weight * np.mean(np.maximum(c.x - c.margin, 0)),
    "ccl-debiased": ccl_debiased,
    "bce": lambda c: softplus(-c.s) + c.weight * np.mean(softplus(c.x)),
    "uib": lambda c: softplus(c.b - c.s) + c.alpha * np.mean(softplus(c.x - c.b)),
    "bpr": lambda c: np.mean(softplus(c.x - c.s)),
    "cml": cml,
    "sml": sml,
}
"""The loss of an interaction, given its parameters and what `World.of` finds out."""


class World:
    """All scores, and what else the loss of one interaction depends on."""

    def __init__(self, loss, train, kind, users, items, boundary=None, margins=None):
        self.loss, self.seen, self.margins = loss, train.toarray() > 0, margins
        self.s, self.between = scores(kind, users, items), scores(kind, items, items)
        self.b = None if boundary is None else _boundaries(kind, users, boundary)
        self.n = self.seen.shape[1]

    def of(self, u, i, faced, *, everything):
        """The loss of (u, i) held against these items; `everything`: each of all items once."""
        loss, mine, popularity = self.loss, np.flatnonzero(self.seen[u]), self.seen.sum(axis=0)
        tau = min((1 + getattr(loss, "alpha", 0)) * len(mine) / self.n, 0.99)
        chances = popularity**loss.popularity if everything else np.ones(len(faced))
        case = SimpleNamespace(
            **{name.replace("-", "_"): value for name, value in loss.values().items()},
            s=self.s[u, i], x=self.s[u, faced], mine=self.s[u, mine], tau=tau, n=self.n,
            chances=chances / chances.sum(), has=self.seen[u, faced],
            between=self.between[i, faced], b=None if self.b is None else self.b[u],
            margins=self.margins and (self.margins[0][u], self.margins[1][i]),
        )  # fmt: skip
        return FORMULAS[loss.name](case)


def _boundaries(kind, users, vector):
    """w·p_u, where the vector meets users as items do."""
    if kind == "distance":  # an item is (q, 1, |q|²) there, and the vector any such three
        k = users.shape[1]
        squares = (users**2).sum(axis=1)
        return 2 * users @ vector[:k] - squares * vector[k] - vector[k + 1]
    if kind == "cosine":
        users = users / np.linalg.norm(users, axis=1, keepdims=True)
    return users @ vector


def walked(train, table, layers):
    """LightGCN: the mean of Â^k E, k = 0 … K."""
    m, n = train.shape
    graph = np.zeros((m + n, m + n))
    graph[:m, m:] = train.toarray()
    graph += graph.T
    degrees = np.maximum(graph.sum(axis=1), 1)
    step = graph / np.sqrt(np.outer(degrees, degrees))
    return sum(np.linalg.matrix_power(step, k) @ table for k in range(layers + 1)) / (layers + 1)
