"""A loss on the scores of rows with all items, its gradient at once, in blocks of items.

Scores of r rows and n items are a matrix that is not wanted: only the loss is, and the gradient,
which has the shapes of what the scores are made of. So items come in blocks. The block of scores is
turned into its own gradient, and that goes to where it belongs before the next one is made. The
softmax must know the sum over all items first: where there are several blocks, it makes each twice.
"""

from collections.abc import Iterator
from typing import Any

import torch

BLOCK = 1 << 25
"""Scores of a block: 128 MB in float32."""


def against_all(
    kind: str,
    hidden: torch.Tensor,
    weights: torch.Tensor,
    bias: torch.Tensor,
    rows: torch.Tensor,
    items: torch.Tensor,
    block: int = BLOCK,
) -> torch.Tensor:
    """The mean over rows of a loss on s = hidden weightsᵀ + bias.

    Row rows[k] has the item items[k]; pairs come by ascending items. With x = 1 for what a row has,
    the loss of a row is

        multinomial   -Σ x log softmax(s)
        logistic       Σ log(1 + e^s) - x s
        gaussian       ½ Σ (s - x)²
    """
    loss: torch.Tensor = _AgainstAll.apply(kind, hidden, weights, bias, rows, items, block)
    return loss


class _AgainstAll(torch.autograd.Function):
    """Makes the gradient while it makes the loss."""

    @staticmethod
    def forward(
        ctx: Any, kind: str, hidden: torch.Tensor, weights: torch.Tensor, bias: torch.Tensor,
        rows: torch.Tensor, items: torch.Tensor, block: int,
    ) -> torch.Tensor:  # fmt: skip
        count, n = len(hidden), len(weights)
        width = max(1, min(n, block // max(count, 1)))
        starts = range(0, n, width)
        has = torch.zeros(count, dtype=hidden.dtype, device=hidden.device)
        has.index_add_(0, rows, torch.ones_like(rows, dtype=hidden.dtype))

        ends = torch.searchsorted(items, torch.tensor([*starts, n], device=items.device)).tolist()

        def blocks() -> Iterator[tuple[slice, torch.Tensor, Any]]:
            for place, start in enumerate(starts):
                part, mine = slice(start, min(start + width, n)), slice(*ends[place : place + 2])
                scores = torch.addmm(bias[part], hidden, weights[part].T)
                yield part, scores, (rows[mine], items[mine] - start)

        value, d_hidden = hidden.new_zeros(()), torch.zeros_like(hidden)
        d_weights, d_bias = torch.empty_like(weights), torch.empty_like(bias)
        again, total, mean_of = blocks(), hidden.new_full((count,), -torch.inf), hidden / count
        once: torch.Tensor | None = None  # what the only block of scores has been reduced by
        if kind == "multinomial":
            for part, scores, pairs in blocks():
                value -= scores[pairs].sum()
                highest = scores.amax(1)
                total = torch.logaddexp(total, _exp(scores, highest).sum(1).log_() + highest)
                if len(starts) == 1:  # it need not be made again
                    once, again = highest, iter([(part, scores, pairs)])
            value += (has * total).sum()
        for part, scores, pairs in again:
            if kind == "multinomial":
                shares = has if once is None else has * (once - total).exp_()
                (_exp(scores, total) if once is None else scores).mul_(shares[:, None])
            elif kind == "logistic":
                value += torch.nn.functional.softplus(scores).sum() - scores[pairs].sum()
                scores.sigmoid_()
            else:
                value += 0.5 * ((scores * scores).sum() + len(pairs[0])) - scores[pairs].sum()
            scores[pairs] -= 1
            d_hidden.addmm_(scores, weights[part])
            torch.mm(scores.T, mean_of, out=d_weights[part])
            torch.sum(scores, 0, out=d_bias[part])
        ctx.gradients = d_hidden.div_(count), d_weights, d_bias.div_(count)
        return value / count

    @staticmethod
    def backward(ctx: Any, *above: torch.Tensor) -> Any:
        (factor,) = above
        scaled = [d if factor == 1 else d * factor for d in ctx.gradients]
        return (None, *scaled, None, None, None)


def _exp(scores: torch.Tensor, less: torch.Tensor) -> torch.Tensor:
    """Powers of e: of the scores, each row less a number, in their place."""
    return scores.sub_(less[:, None]).exp_()
