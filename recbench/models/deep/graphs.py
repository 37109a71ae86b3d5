"""The deep graph models by name: vectors of users and items that layers make along the graph.

They know the users of the train matrix and no others: every user has numbers of his own.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from recbench.linalg.types import Sparse
from recbench.models.base import Model
from recbench.models.deep.family import C, deep
from recbench.models.deep.layers import Attending, Gathered, Layers, Mixed, Routed
from recbench.models.deep.training import Training
from recbench.params import inlined

if TYPE_CHECKING:
    from recbench.models.deep.nets.trainer import Net, Place

PAIRS = "log(1 + e^(s_uj - s_ui)) + ½ l2 "
OF_TABLE = PAIRS + "(|a_u|² + |a_i|² + |a_j|²)"
SYMBOLS = (
    "of each interaction of u with i; j: an item that is drawn, or a mean over several; s_ui = "
    "p_u·p_i, of what layers make of the table a"
)
BATCH = 8192
"""Larger than the papers' 1,024 or 2,000: a step goes along the whole graph, however few it has."""


class _Layered(Protocol):
    """A model of layers along the graph."""

    training: Training
    shape: Layers


def _graph_model(name: str) -> Callable[[C], C]:
    """Register a class of models that say by a shape what layers there are."""

    def keep(cls: C) -> C:
        cls.numbers, cls.trained_users_only = _numbers, True
        return deep(name)(cls)

    return keep


def _numbers(model: _Layered, train: Sparse) -> tuple[int, int]:
    """How many numbers are trained, and how many a step makes on its way."""
    trained, made = model.shape.numbers(*train.shape, train.nnz)
    return trained, made + model.shape.faced(min(model.training.batch, train.nnz), train.shape[1])


@_graph_model("ngcf")
@dataclass(frozen=True)
class Ngcf(Model):
    """NGCF: what neighbours send is mixed with what a node has; all layers side by side."""

    cite = "Wang et al. (2019), Neural Graph Collaborative Filtering"
    formula = PAIRS + "(|p_u|² + |p_i|² + |p_j|²)"
    symbols = SYMBOLS
    training: Training = inlined(Training, epochs=100, rate=0.003, batch=BATCH, l2=1e-5)
    shape: Mixed = inlined(Mixed, layers=3)

    def net(self, train: Sparse, place: "Place") -> "Net":
        """What is trained, as it is before the first step."""
        from recbench.models.deep.nets.ngcf import Ngcf as Net

        return Net(train, self.shape, self.training, place)


@_graph_model("gat")
@dataclass(frozen=True)
class Gat(Model):
    """GAT: nodes attend to some of their neighbours more than to others."""

    cite = "Veličković et al. (2018), Graph Attention Networks"
    formula = OF_TABLE
    symbols = SYMBOLS
    training: Training = inlined(Training, epochs=100, rate=0.003, batch=BATCH, l2=1e-5)
    shape: Attending = inlined(Attending)

    def net(self, train: Sparse, place: "Place") -> "Net":
        """What is trained, as it is before the first step."""
        from recbench.models.deep.nets.gat import Gat as Net

        return Net(train, self.shape, self.training, place)


@_graph_model("pinsage")
@dataclass(frozen=True)
class PinSage(Model):
    """PinSage on the graph of interactions: nodes take up the mean of their neighbours."""

    cite = (
        "Ying et al. (2018), Graph Convolutional Neural Networks for Web-Scale Recommender Systems"
    )
    formula = OF_TABLE
    symbols = SYMBOLS
    training: Training = inlined(Training, epochs=100, rate=0.003, batch=BATCH, l2=1e-5)
    shape: Gathered = inlined(Gathered)

    def net(self, train: Sparse, place: "Place") -> "Net":
        """What is trained, as it is before the first step."""
        from recbench.models.deep.nets.pinsage import PinSage as Net

        return Net(train, self.shape, self.training, place)


@_graph_model("dgcf")
@dataclass(frozen=True)
class Dgcf(Model):
    """DGCF: vectors in parts, one for each intent, and interactions shared out among them."""

    cite = "Wang et al. (2020), Disentangled Graph Collaborative Filtering"
    formula = OF_TABLE + " + c Σ_f dcor(p_f, p_(f+1))"
    symbols = SYMBOLS + "; p_f: part f of vectors, one for each intent; c: independence, shared out"
    training: Training = inlined(Training, epochs=100, rate=0.003, batch=BATCH, l2=1e-3)
    shape: Routed = inlined(Routed, layers=1)

    def net(self, train: Sparse, place: "Place") -> "Net":
        """What is trained, as it is before the first step."""
        from recbench.models.deep.nets.dgcf import Dgcf as Net

        return Net(train, self.shape, self.training, place)
