"""How the models of this folder are trained."""

from dataclasses import dataclass

from recbench.models.rates import NEVER, decay_at_parameter, decay_parameter, decays, lowered
from recbench.models.rounds import Schedule, every_parameter, patience_parameter
from recbench.params import Described, param


@dataclass(frozen=True)
class Training(Described):
    """Epochs of steps by Adam, each along the gradient of a batch."""

    epochs: int = param(50, help="passes over the data; a grid over this costs one fit", low=1)
    rate: float = param(
        0.001, help="learning rate: how far a step goes", low=0, open_low=True, log=True,
        search=(0.0003, 0.01),
    )  # fmt: skip
    decay_at: str = decay_at_parameter(NEVER)
    decay: float = decay_parameter()
    batch: int = param(500, help="rows of a step", low=1, log=True)
    l2: float = param(
        0.0, help="penalty in every step, on squares: the formula says of what", low=0, log=True,
        search=(1e-7, 1e-3),
    )  # fmt: skip
    patience: int = patience_parameter()
    every: int = every_parameter("epochs")

    def __post_init__(self) -> None:
        """Check the schedule as well."""
        super().__post_init__()
        decays(self.decay_at)

    def rate_in(self, epoch: int) -> float:
        """How far a step of this epoch goes."""
        return lowered(self.rate, self.decay_at, self.decay, epoch)

    @property
    def schedule(self) -> Schedule:
        """How long to go on."""
        return Schedule(self.epochs, self.patience, self.every)
