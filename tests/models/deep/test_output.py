"""The loss against all items, some rows at a time, is the plain one, and so is its gradient."""

import numpy as np
import pytest
from scipy import sparse

torch = pytest.importorskip("torch", reason="PyTorch, an extra, is not installed")

from recbench.models.deep.nets import output

USERS, ITEMS, WIDTH = 5, 7, 3


def plain(kind, hidden, weights, bias, has):
    scores = hidden @ weights.T + bias
    if kind == "multinomial":
        return -(has * torch.log_softmax(scores, 1)).sum() / len(hidden)
    if kind == "logistic":
        return (torch.nn.functional.softplus(scores) - has * scores).sum() / len(hidden)
    return ((scores - has) ** 2).sum() / 2 / len(hidden)


@pytest.mark.parametrize("side", ["_Compiled", "_OnDevice"])
@pytest.mark.parametrize("block", [1, 15, 1000], ids=["a row", "some rows", "all at once"])
@pytest.mark.parametrize("kind", ["multinomial", "logistic", "gaussian"])
def test_some_rows_at_a_time_are_the_whole(kind, block, side, monkeypatch):
    monkeypatch.setattr(output, "_Compiled", getattr(output, side))  # the one that is taken here
    rng = np.random.default_rng(3)
    has = torch.tensor(rng.random((USERS, ITEMS)) < 0.4, dtype=torch.float64)
    has[1] = 0  # who has nothing
    cells = sparse.csr_array(has.numpy())
    items = cells.indptr.astype(np.int64), cells.indices.astype(np.int32)
    shapes = (USERS, WIDTH), (ITEMS, WIDTH), (ITEMS,)
    parts = [torch.tensor(40 * rng.standard_normal(s), requires_grad=True) for s in shapes]
    expected = plain(kind, *parts, has)
    wanted = torch.autograd.grad(expected, parts)
    loss = output.against_all(kind, *parts, *items, output.Space(block))
    assert float(loss.detach()) == pytest.approx(float(expected.detach()), rel=1e-12)
    for found, gradient in zip(torch.autograd.grad(3 * loss, parts), wanted, strict=True):
        torch.testing.assert_close(found, 3 * gradient, rtol=1e-10, atol=1e-12)
