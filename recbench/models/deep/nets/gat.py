"""GAT: nodes attend to their neighbours and to themselves, to some more than to others."""

import torch
from torch import Tensor
from torch.nn import ModuleList, ParameterList, functional

from recbench.linalg.types import Sparse
from recbench.models.deep.layers import Attending
from recbench.models.deep.nets.nodes import SLOPE, Map, Nodes, dropped, of, side_by_side
from recbench.models.deep.nets.trainer import Place
from recbench.models.deep.training import Training


class Gat(Nodes):
    """All layers side by side, rows as long as one. A head of a layer makes of H

    elu(Σ_w α_vw h_w W),   α_vw = softmax_w leaky(h_v W · a + h_w W · b)

    over the neighbours w of v and v itself. Heads are put side by side, and some of that is
    dropped.
    """

    def __init__(self, train: Sparse, shape: Attending, training: Training, place: Place) -> None:
        super().__init__(train, shape, training, place, loops=True)
        self.shape, depths = shape, range(shape.layers)
        square, parts = (shape.factors, shape.factors), (shape.heads, shape.factors // shape.heads)
        self.maps = ModuleList(Map(place, f"map {at}", square, bias=False) for at in depths)
        self.at_own = ParameterList(place.xavier(f"own {at}", parts) for at in depths)
        self.at_others = ParameterList(place.xavier(f"others {at}", parts) for at in depths)

    def vectors(self, noise: torch.Generator | None, nodes: Tensor | None = None) -> Tensor:
        """The table, and what heads make."""
        own: Tensor = self.nodes
        found = [of(own, nodes)]
        for mapped, *at in zip(self.maps, self.at_own, self.at_others, strict=True):
            parts = mapped(own).chunk(self.shape.heads, dim=1)
            got = [self._attend(*each) for each in zip(parts, *at, strict=True)]
            own = dropped(functional.elu(torch.cat(got, dim=1)), self.shape.dropout, noise)
            found.append(of(own, nodes))
        return side_by_side(found)

    def _attend(self, part: Tensor, at_own: Tensor, at_others: Tensor) -> Tensor:
        """What a head makes."""
        own, others = part @ at_own, part @ at_others
        ones = torch.ones_like(own)
        sums = self.edges.products(  # of own and others, as products
            torch.stack([own, ones], dim=1), torch.stack([ones, others], dim=1)
        )
        shares = self.edges.shares(functional.leaky_relu(sums, SLOPE))
        return self.edges.sum(shares, part.contiguous())
