"""Graph models as their papers write them: node by node and edge by edge, in NumPy.

Parameters are given by the names they have in the nets; nothing else is taken from the package.
"""

import numpy as np


def neighbours(train, *, loops=False):
    """Of every node, users first: those it shares an interaction with, and itself if asked for."""
    dense = train.toarray() != 0
    users = len(dense)
    found = [[users + int(i) for i in np.flatnonzero(row)] for row in dense]
    found += [[int(u) for u in np.flatnonzero(column)] for column in dense.T]
    return [sorted({*near, v}) if loops else near for v, near in enumerate(found)]


def leaky(x):
    return np.where(x > 0, x, 0.2 * x)


def relu(x):
    return np.maximum(x, 0)


def unit(x):
    """Rows of length one; zeros stay."""
    return np.array([row / max(np.linalg.norm(row), 1e-12) for row in x])


def averages(near, x):
    """The mean of what neighbours have; zeros where there are none."""
    return np.array([np.mean(x[w], axis=0) if w else np.zeros(x.shape[1]) for w in near])


def by_roots(near, x):
    """The sum of what neighbours have, over the roots of both degrees."""
    found = np.zeros_like(x)
    for v, others in enumerate(near):
        for w in others:
            found[v] += x[w] / np.sqrt(len(others) * len(near[w]))
    return found


def mapped(given, name, x):
    bias = given.get(f"{name}.bias")
    return x @ given[f"{name}.weights"] + (0 if bias is None else bias)


def ngcf(train, given, shape):
    h = given["nodes"]
    found = [h]
    for k in range(shape.layers):
        if shape.form == "paper":
            got = by_roots(neighbours(train), h)
            h = leaky(mapped(given, f"sent.{k}", got + h) + mapped(given, f"shared.{k}", got * h))
        else:
            got = averages(neighbours(train, loops=True), h)
            sent, shared = mapped(given, f"sent.{k}", got), mapped(given, f"shared.{k}", got * h)
            h = leaky(sent) + leaky(shared)
        found.append(unit(h))
    return np.concatenate(found, axis=1)


def pinsage(train, given, shape):
    h = given["nodes"]
    for k in range(shape.layers):
        got = averages(neighbours(train), relu(mapped(given, f"sent.{k}", h)))
        h = unit(relu(mapped(given, f"mixed.{k}", np.concatenate([h, got], axis=1))))
    return mapped(given, "last", relu(mapped(given, "then", h)))


def gat(train, given, shape):
    h = given["nodes"]
    found = [h]
    for k in range(shape.layers):
        parts = np.split(mapped(given, f"maps.{k}", h), shape.heads, axis=1)
        made = []
        for part, a, b in zip(parts, given[f"at_own.{k}"], given[f"at_others.{k}"], strict=True):
            out = np.zeros_like(part)
            for v, near in enumerate(neighbours(train, loops=True)):
                powers = np.exp([leaky(part[v] @ a + part[w] @ b) for w in near])
                out[v] = powers / powers.sum() @ part[near]
            made.append(np.where(out > 0, out, np.expm1(out)))
        h = np.concatenate(made, axis=1)
        found.append(unit(h))
    return np.concatenate(found, axis=1)


def dgcf(train, given, shape):
    near = neighbours(train)
    edges = [(v, w) for v, others in enumerate(near) for w in others]
    x = given["nodes"]
    found, scores = [x], {edge: np.ones(shape.intents) for edge in edges}
    for _ in range(shape.layers):
        chunks = np.split(x, shape.intents, axis=1)
        for _ in range(shape.iterations):
            shares = {edge: np.exp(s) / np.exp(s).sum() for edge, s in scores.items()}
            made = []
            for f, chunk in enumerate(chunks):
                sums = [sum(shares[v, w][f] for w in others) for v, others in enumerate(near)]
                out = np.zeros_like(chunk)
                for v, w in edges:
                    out[v] += shares[v, w][f] * chunk[w] / np.sqrt(sums[v] * sums[w])
                made.append(out)
            for v, w in edges:
                more = [
                    unit(out)[v] @ np.tanh(unit(chunk)[w])
                    for out, chunk in zip(made, chunks, strict=True)
                ]
                scores[v, w] = scores[v, w] + more
        x = np.concatenate(made, axis=1)
        found.append(x)
    return np.mean(found, axis=0)


def correlation(one, other):
    """The distance correlation of two tables with the same rows."""

    def centred(x):
        d = np.array([[np.linalg.norm(a - b) for b in x] for a in x])
        return d - d.mean(axis=0) - d.mean(axis=1)[:, None] + d.mean()

    a, b = centred(one), centred(other)
    return np.sqrt((a * b).mean() / np.sqrt((a * a).mean() * (b * b).mean()))
