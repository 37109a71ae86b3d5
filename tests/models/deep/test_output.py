"""The loss against all items in blocks is the plain one, and so is its gradient."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch, an extra, is not installed")

from recbench.models.deep.nets.output import against_all

USERS, ITEMS, WIDTH = 5, 7, 3


def plain(kind, hidden, weights, bias, has):
    scores = hidden @ weights.T + bias
    if kind == "multinomial":
        return -(has * torch.log_softmax(scores, 1)).sum() / len(hidden)
    if kind == "logistic":
        return (torch.nn.functional.softplus(scores) - has * scores).sum() / len(hidden)
    return ((scores - has) ** 2).sum() / 2 / len(hidden)


@pytest.mark.parametrize("block", [1, 12, 1000], ids=["an item", "some items", "all at once"])
@pytest.mark.parametrize("kind", ["multinomial", "logistic", "gaussian"])
def test_blocks_of_items_are_the_whole(kind, block):
    rng = np.random.default_rng(3)
    has = torch.tensor(rng.random((USERS, ITEMS)) < 0.4, dtype=torch.float64)
    has[1] = 0  # who has nothing
    items, rows = torch.nonzero(has.T, as_tuple=True)
    shapes = (USERS, WIDTH), (ITEMS, WIDTH), (ITEMS,)
    parts = [torch.tensor(40 * rng.standard_normal(s), requires_grad=True) for s in shapes]
    expected = plain(kind, *parts, has)
    wanted = torch.autograd.grad(expected, parts)
    loss = against_all(kind, *parts, rows, items, block)
    assert float(loss.detach()) == pytest.approx(float(expected.detach()), rel=1e-12)
    for found, gradient in zip(torch.autograd.grad(3 * loss, parts), wanted, strict=True):
        torch.testing.assert_close(found, 3 * gradient, rtol=1e-10, atol=1e-12)
