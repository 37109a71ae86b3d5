"""PinSage on the graph of interactions: nodes take up the mean of their neighbours."""

import torch
from torch import Tensor
from torch.nn import ModuleList, functional

from recbench.linalg.types import Sparse
from recbench.models.deep.layers import Gathered
from recbench.models.deep.nets.nodes import Map, Nodes, dropped, of
from recbench.models.deep.nets.trainer import Place
from recbench.models.deep.training import Training


class PinSage(Nodes):
    """relu(H N + n) M of what the last layer makes; a layer makes of H

    relu([H, mean of relu(H W + b) over neighbours] V + c),   rows as long as one

    and drops some of it.
    """

    def __init__(self, train: Sparse, shape: Gathered, training: Training, place: Place) -> None:
        super().__init__(train, shape, training, place)
        self.shape, self.hop, depths = shape, self.edges.means(), range(shape.layers)
        square, two = (shape.factors, shape.factors), (2 * shape.factors, shape.factors)
        self.sent = ModuleList(Map(place, f"sent {at}", square) for at in depths)
        self.mixed = ModuleList(Map(place, f"mixed {at}", two) for at in depths)
        self.then = Map(place, "then", square)
        self.last = Map(place, "last", square, bias=False)

    def vectors(self, noise: torch.Generator | None, nodes: Tensor | None = None) -> Tensor:
        """What the last layer makes, for the nodes that are asked for, mapped twice more."""
        own: Tensor = self.nodes
        for at, (sent, mixed) in enumerate(zip(self.sent, self.mixed, strict=True), 1):
            some = nodes if at == self.shape.layers else None
            got, own = self.hop(torch.relu(sent(own)), some), of(own, some)
            own = functional.normalize(torch.relu(mixed(torch.cat([own, got], dim=1))))
            own = dropped(own, self.shape.dropout, noise)
        vectors: Tensor = self.last(torch.relu(self.then(own)))
        return vectors
