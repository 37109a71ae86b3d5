"""A loss on the scores of rows with all items, and its gradient at once, some rows at a time.

Scores of r rows and n items are a matrix that is not wanted: only the loss is, and the gradient,
which has the shapes of what the scores are made of. So as many rows are taken as there is room for
scores, and their scores turned into their own gradient. On a processor this is the product of
matrices that losses by user are: `linalg/responses.py` does both, in panels that fit a cache.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from recbench.linalg import blas
from recbench.linalg.responses import Block, Response, Room
from recbench.linalg.types import Counts, Floats, Indices

BLOCK = 1 << 25
"""Scores at a time: 128 MB in float32."""
RESPONSES = {
    "multinomial": Response("exponential"),
    "logistic": Response("softplus"),
    "gaussian": Response("square"),
}


@dataclass
class Space:
    """Arrays that one step after the other works in."""

    block: int = BLOCK
    room: Room = field(default_factory=Room)
    columns: Floats = field(default_factory=lambda: np.empty((0, 0)))


def against_all(
    kind: str, hidden: Tensor, weights: Tensor, bias: Tensor, starts: Counts, cells: Indices,
    space: Space,
) -> Tensor:  # fmt: skip
    """The mean over rows of a loss on s = hidden weightsᵀ + bias.

    Items of row r are those of the cells from starts[r] on. With x = 1 for what a row has, the loss
    of a row is

        multinomial   -Σ x log softmax(s)
        logistic       Σ log(1 + e^s) - x s
        gaussian       ½ Σ (s - x)²
    """
    loss: Tensor = _AgainstAll.apply(kind, hidden, weights, bias, starts, cells, space)
    return loss


class _AgainstAll(torch.autograd.Function):
    """Makes the gradient while it makes the loss."""

    @staticmethod
    def forward(
        ctx: Any, kind: str, hidden: Tensor, weights: Tensor, bias: Tensor, starts: Counts,
        cells: Indices, space: Space,
    ) -> Tensor:  # fmt: skip
        count, at_once = len(hidden), max(1, space.block // max(len(weights), 1))
        sides = _Compiled if hidden.device.type == "cpu" else _OnDevice
        side = sides(kind, hidden.detach(), weights.detach(), bias.detach(), space)
        value = 0.0
        for first in range(0, count, at_once):
            rows = slice(first, min(first + at_once, count))
            bounds = starts[rows.start : rows.stop + 1]
            value += side.add(rows, bounds - bounds[0], cells[bounds[0] : bounds[-1]])
        ctx.gradients = side.gradients()
        return hidden.new_tensor(value / max(count, 1))

    @staticmethod
    def backward(ctx: Any, *above: Tensor) -> Any:
        (factor,) = above
        gradients, ctx.gradients = ctx.gradients, None  # whoever holds them alone need not copy
        return None, *_scaled(gradients, factor), None, None, None


def _scaled(gradients: list[Tensor], factor: Tensor) -> Iterator[Tensor]:
    """Each times a factor, held by nobody else."""
    while gradients:
        gradient = gradients.pop(0)
        yield gradient if factor == 1 else gradient * factor


class _Compiled:
    """In main memory. Biases are one more number of each item, and what rows have there is 1."""

    def __init__(
        self, kind: str, hidden: Tensor, weights: Tensor, bias: Tensor, space: Space
    ) -> None:
        self.kind, self.space, self.width = kind, space, hidden.shape[1]
        self.rows = _widened(hidden)
        shape = len(weights), self.rows.shape[1]
        if space.columns.shape != shape or space.columns.dtype != self.rows.dtype:
            space.columns = np.zeros(shape, self.rows.dtype)
        space.columns[:, : self.width] = weights.numpy()
        space.columns[:, self.width] = bias.numpy()
        self.to_rows = np.empty_like(self.rows)
        self.to_columns: Floats | None = None

    def add(self, rows: slice, starts: Counts, cells: Indices) -> float:
        """Add the gradient of some rows; return their loss."""
        from recbench.linalg import responses_kernel as kernel

        own, columns = self.rows[rows], self.space.columns
        has = np.diff(starts)
        with blas.workers() as pool:
            block = Block(pool, own, columns, self.space.room)
            means = block.respond(RESPONSES[self.kind])
            if self.kind == "multinomial":
                value, weights = has @ (means.value + np.log(len(columns))), has
            else:
                value, weights = means.value.sum() * len(columns), np.full(len(own), len(columns))
            weights = weights / len(self.rows)
            to_rows, to_columns = block.pull(weights), block.push(weights)
        scores = np.empty(len(cells), own.dtype)
        kernel.dots(own, columns, starts, cells, scores)
        pull = np.full(len(cells), -1 / len(self.rows), own.dtype)
        kernel.add_to_rows(starts, cells, pull, columns, to_rows)
        kernel.add_to_columns(starts, cells, pull, own, to_columns)
        self.to_rows[rows] = to_rows
        if self.to_columns is None:
            self.to_columns = to_columns
        else:
            self.to_columns += to_columns
        half = len(cells) / 2 if self.kind == "gaussian" else 0.0
        return float(value - scores.sum(dtype=float) + half)

    def gradients(self) -> list[Tensor]:
        """Of what the scores are made of."""
        found = self.to_columns if self.to_columns is not None else 0 * self.space.columns
        parts = self.to_rows[:, : self.width], found[:, : self.width], found[:, self.width]
        return [torch.from_numpy(np.ascontiguousarray(part)) for part in parts]


def _widened(hidden: Tensor) -> Floats:
    """Rows with a 1 behind them, and zeros up to whole vectors."""
    from recbench.linalg.registers_kernel import SIDE

    width = hidden.shape[1] + 1
    wide: Floats = np.zeros((len(hidden), width + -width % SIDE), hidden.numpy().dtype)
    wide[:, : width - 1], wide[:, width - 1] = hidden.numpy(), 1
    return wide


class _OnDevice:
    """By PyTorch's own operations."""

    def __init__(
        self, kind: str, hidden: Tensor, weights: Tensor, bias: Tensor, space: Space
    ) -> None:
        self.kind, self.hidden, self.weights, self.bias = kind, hidden, weights, bias
        self.to_hidden = torch.zeros_like(hidden)
        self.to_weights, self.to_bias = torch.zeros_like(weights), torch.zeros_like(bias)

    def add(self, rows: slice, starts: Counts, cells: Indices) -> float:
        """Add the gradient of some rows; return their loss."""
        hidden, device = self.hidden[rows], self.hidden.device
        lengths = torch.as_tensor(np.diff(starts), device=device)
        owners = torch.repeat_interleave(lengths, output_size=len(cells))
        pairs = owners, torch.as_tensor(cells.astype(np.int64), device=device)
        scores = torch.addmm(self.bias, hidden, self.weights.T)
        value = -scores[pairs].sum()
        if self.kind == "multinomial":
            has = lengths.to(scores.dtype)
            highest = scores.amax(1)
            scores.sub_(highest[:, None]).exp_()
            total = scores.sum(1)
            value += (has * (total.log() + highest)).sum()
            scores.mul_((has / total)[:, None])
        elif self.kind == "logistic":
            value += torch.nn.functional.softplus(scores).sum()
            scores.sigmoid_()
        else:
            value += 0.5 * ((scores * scores).sum() + len(cells))
        scores[pairs] -= 1
        scores /= len(self.hidden)
        self.to_hidden[rows] = scores @ self.weights
        self.to_weights.addmm_(scores.T, hidden)
        self.to_bias += scores.sum(0)
        return float(value)

    def gradients(self) -> list[Tensor]:
        """Of what the scores are made of."""
        return [self.to_hidden, self.to_weights, self.to_bias]
