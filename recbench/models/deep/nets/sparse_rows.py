"""Sparse matrices by rows, in PyTorch."""

import warnings
from typing import Any

import torch
from torch import Tensor

with warnings.catch_warnings():  # the first says that support is in beta, once for all
    warnings.simplefilter("ignore")
    torch.sparse_csr_tensor([0, 0], [], [], (1, 1), check_invariants=False)


def by_rows(starts: Tensor, columns: Tensor, values: Tensor, width: int) -> Tensor:
    """The matrix whose rows begin at `starts`."""
    shape = len(starts) - 1, width
    return torch.sparse_csr_tensor(
        starts.int(), columns.int(), values, shape, check_invariants=False
    )


def summed(starts: Tensor, columns: Tensor, values: Tensor, table: Tensor) -> Tensor:
    """The product of such a matrix with a table that is trained.

    The gradient is of the rows of the table that were asked for, each of them once.
    """
    sums: Tensor = _Summed.apply(starts, columns, values, table)
    return sums


class _Summed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, starts: Tensor, columns: Tensor, values: Tensor, table: Tensor) -> Tensor:
        ctx.save_for_backward(starts, columns, values)
        ctx.shape = table.shape
        return by_rows(starts, columns, values, len(table)) @ table

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        starts, columns, values = ctx.saved_tensors
        order = torch.argsort(columns, stable=True)
        asked, counts = torch.unique_consecutive(columns[order], return_counts=True)
        ends = torch.nn.functional.pad(counts.cumsum(0), (1, 0))
        rows = torch.repeat_interleave(starts.diff(), output_size=len(columns))[order]
        sums = by_rows(ends, rows, values[order], len(g)) @ g
        gradient = torch.sparse_coo_tensor(
            asked[None], sums, ctx.shape, is_coalesced=True, check_invariants=False
        )
        return None, None, None, gradient
