"""PinSage on the graph of interactions: nodes take up the mean of their neighbours."""

import torch
from scipy import sparse
from torch import Tensor
from torch.nn import ModuleList, functional

from recbench.models.deep.layers import Gathered
from recbench.models.deep.nets.nodes import Map, Nodes, dropped
from recbench.models.deep.nets.trainer import Place
from recbench.models.deep.training import Training


class PinSage(Nodes):
    """relu(H N + n) M of what the last layer makes; a layer makes of H

    relu([H, mean of relu(H W + b) over neighbours] V + c),   rows as long as one

    and drops some of it.
    """

    def __init__(
        self, train: sparse.csr_array, shape: Gathered, training: Training, place: Place
    ) -> None:
        super().__init__(train, shape, training, place)
        self.shape, self.hop, depths = shape, self.edges.means(), range(shape.layers)
        square, two = (shape.factors, shape.factors), (2 * shape.factors, shape.factors)
        self.sent = ModuleList(Map(place, f"sent {at}", square) for at in depths)
        self.mixed = ModuleList(Map(place, f"mixed {at}", two) for at in depths)
        self.then = Map(place, "then", square)
        self.last = Map(place, "last", square, bias=False)

    def layers(self, noise: torch.Generator | None) -> list[Tensor]:
        """What the last layer makes."""
        own: Tensor = self.nodes
        for sent, mixed in zip(self.sent, self.mixed, strict=True):
            got = self.hop(torch.relu(sent(own)))
            own = functional.normalize(torch.relu(mixed(torch.cat([own, got], dim=1))))
            own = dropped(own, self.shape.dropout, noise)
        return [own]

    def joined(self, layers: list[Tensor]) -> Tensor:
        """Mapped twice more."""
        vectors: Tensor = self.last(torch.relu(self.then(layers[0])))
        return vectors
