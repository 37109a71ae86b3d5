"""The graph of users and items in PyTorch: sums over neighbours, and numbers along edges.

Users come first, items below them. An edge goes both ways and is stored twice, each time by its
head, the node that it belongs to. What a node v gets is a sum over its edges

    y_v = Σ_w value_vw x_w

and what an edge gets is a product of its ends. The derivatives of one are made as the other is, so
no table of edges x factors is ever written, as automatic differentiation would want it.
"""

from typing import Any

import numpy as np
import scipy
import torch
from torch import Tensor

from recbench.linalg.types import Sparse
from recbench.models.deep.nets.sparse_rows import by_rows


class Edges:
    """Where the edges are; numbers of edges are tensors in the same order."""

    def __init__(
        self, train: Sparse, device: torch.device | str, dtype: torch.dtype,
        *, loops: bool = False,
    ) -> None:  # fmt: skip
        users, items = train.shape
        links = scipy.sparse.csr_array(
            (np.ones(train.nnz), train.indices, train.indptr), train.shape
        )
        graph = scipy.sparse.block_array([[None, links], [links.T, None]], format="csr")
        if loops:  # every node is a neighbour of itself
            graph = scipy.sparse.csr_array(graph + scipy.sparse.eye_array(users + items))
        graph.sort_indices()
        numbers = scipy.sparse.csr_array(
            (np.arange(graph.nnz), graph.indices, graph.indptr), graph.shape
        )
        self.users, self.items, self.nodes = users, items, users + items
        self.starts = torch.as_tensor(graph.indptr.astype(np.int32), device=device)
        self.tails = torch.as_tensor(graph.indices.astype(np.int32), device=device)
        self.degrees = self.starts.diff().to(dtype)
        self.heads = torch.repeat_interleave(self.starts.diff(), output_size=graph.nnz)
        self.turned = torch.as_tensor(numbers.T.tocsr().data.astype(np.int32), device=device)
        """Of each edge, the one that leads back."""

    def matrix(self, values: Tensor) -> Tensor:
        """The edges as a sparse matrix, heads by row."""
        return by_rows(self.starts, self.tails, values, self.nodes)

    def sum(self, values: Tensor, x: Tensor) -> Tensor:
        """For each node, what its neighbours have, times the values of the edges."""
        total: Tensor = _Sum.apply(self, values, x)
        return total

    def products(self, heads: Tensor, tails: Tensor) -> Tensor:
        """For each edge, the product of the row of its head with that of its tail."""
        products: Tensor = _Products.apply(self, heads, tails)
        return products

    def totals(self, values: Tensor) -> Tensor:
        """For each node, the sum of its edges' values."""
        return self.sum(values, values.new_ones(self.nodes, 1))[:, 0]

    def shares(self, values: Tensor) -> Tensor:
        """The softmax of values among the edges of each node."""
        shares: Tensor = _Shares.apply(self, values)
        return shares

    def back(self, values: Tensor) -> Tensor:
        """The values of edges the other way round."""
        return values.index_select(0, self.turned)

    def rows_of(self, nodes: Tensor, values: Tensor) -> Tensor:
        """The rows of these heads in `matrix`."""
        lengths = self.starts.diff().index_select(0, nodes)
        starts = torch.nn.functional.pad(lengths.cumsum(0), (1, 0))
        shift = self.starts.index_select(0, nodes) - starts[:-1]
        total = int(starts[-1])
        places = torch.arange(total, device=nodes.device)
        places += torch.repeat_interleave(shift, lengths, output_size=total)
        tails, some = (each.index_select(0, places) for each in (self.tails, values))
        return by_rows(starts, tails, some, self.nodes)

    def of_heads(self, x: Tensor) -> Tensor:
        """What each edge's head has."""
        return x.index_select(0, self.heads)

    def means(self) -> "Hop":
        """Means over neighbours."""
        return Hop(self, self.of_heads(1 / self.degrees))

    def roots(self) -> "Hop":
        """Sums over neighbours, divided by the roots of both ends' degrees."""
        roots = self.of_heads(self.degrees.rsqrt())
        return Hop(self, roots * self.back(roots))


class Hop:
    """Sums over neighbours with values that stay."""

    def __init__(self, edges: Edges, values: Tensor) -> None:
        self.edges, self.values = edges, values
        self.there, self.back = edges.matrix(values), edges.matrix(edges.back(values))

    def __call__(self, x: Tensor, nodes: Tensor | None = None) -> Tensor:
        """For each node, or some, what its neighbours have, times the values of the edges."""
        total: Tensor = _Hop.apply(self, x, nodes)
        return total


class _Hop(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, hop: Hop, x: Tensor, nodes: Tensor | None) -> Tensor:
        ctx.hop, ctx.nodes, ctx.shape = hop, nodes, x.shape
        return (hop.there if nodes is None else hop.edges.rows_of(nodes, hop.values)) @ x

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        all_of_it = g if ctx.nodes is None else g.new_zeros(ctx.shape).index_copy(0, ctx.nodes, g)
        return None, ctx.hop.back @ all_of_it, None


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, edges: Edges, values: Tensor, x: Tensor) -> Tensor:
        ctx.edges = edges
        ctx.save_for_backward(values, x)
        return edges.matrix(values) @ x

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        (values, x), edges = ctx.saved_tensors, ctx.edges
        _, for_values, for_x = ctx.needs_input_grad
        by_values = _products(edges, g, x) if for_values else None
        by_x = edges.matrix(edges.back(values)) @ g if for_x else None
        return None, by_values, by_x


class _Products(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, edges: Edges, heads: Tensor, tails: Tensor) -> Tensor:
        ctx.edges = edges
        ctx.save_for_backward(heads, tails)
        return _products(edges, heads, tails)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        (heads, tails), edges = ctx.saved_tensors, ctx.edges
        return None, edges.matrix(g) @ tails, edges.matrix(edges.back(g)) @ heads


class _Shares(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, edges: Edges, values: Tensor) -> Tensor:
        largest = torch.segment_reduce(values, "max", offsets=edges.starts.long())
        powers = torch.exp(values - edges.of_heads(largest))
        shares = powers / edges.of_heads(edges.totals(powers))
        ctx.edges = edges
        ctx.save_for_backward(shares)
        return shares

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        (shares,), edges = ctx.saved_tensors, ctx.edges
        return None, shares * (g - edges.of_heads(edges.totals(shares * g)))


def _products(edges: Edges, heads: Tensor, tails: Tensor) -> Tensor:
    pattern = edges.matrix(heads.new_zeros(len(edges.tails)))
    return torch.sparse.sampled_addmm(pattern, heads.contiguous(), tails.T, beta=0.0).values()
