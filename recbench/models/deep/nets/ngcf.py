"""NGCF: what neighbours send is mixed with what a node has, layer by layer."""

import torch
from torch import Tensor
from torch.nn import ModuleList
from torch.nn.functional import leaky_relu

from recbench.linalg.types import Sparse
from recbench.models.deep.layers import Mixed
from recbench.models.deep.nets.nodes import SLOPE, Map, Nodes, dropped, of, side_by_side
from recbench.models.deep.nets.trainer import Place
from recbench.models.deep.training import Training


class Ngcf(Nodes):
    """All layers side by side, where one makes of H

    code:    leaky(L H W + b) + leaky((H ⊙ L H) V + c),   L the mean over neighbours and itself
    paper:   leaky((Â H + H) W + b + (H ⊙ Â H) V + c)

    and drops some of it. Rows are as long as one when they are ranked by, but go on as they are.
    """

    def __init__(self, train: Sparse, shape: Mixed, training: Training, place: Place) -> None:
        super().__init__(train, shape, training, place, loops=shape.form == "code")
        self.shape, self.paper = shape, shape.form == "paper"
        self.hop = self.edges.roots() if self.paper else self.edges.means()
        square, depths = (shape.factors, shape.factors), range(shape.layers)
        self.sent = ModuleList(Map(place, f"sent {at}", square) for at in depths)
        self.shared = ModuleList(Map(place, f"shared {at}", square) for at in depths)

    def vectors(self, noise: torch.Generator | None, nodes: Tensor | None = None) -> Tensor:
        """The table, and what is mixed; the last time for the nodes that are asked for."""
        own: Tensor = self.nodes
        found = [of(own, nodes)]
        for at, (sent, shared) in enumerate(zip(self.sent, self.shared, strict=True), 1):
            some = nodes if at == self.shape.layers else None
            got, own = self.hop(own, some), of(own, some)
            if self.paper:
                mixed = leaky_relu(sent(got + own) + shared(own * got), SLOPE)
            else:
                mixed = leaky_relu(sent(got), SLOPE) + leaky_relu(shared(own * got), SLOPE)
            own = dropped(mixed, self.shape.dropout, noise)
            found.append(of(own, nodes) if some is None else own)
        return side_by_side(found)

    def penalised(self, nodes: Tensor, vectors: Tensor) -> Tensor:
        """What is ranked by."""
        return vectors
