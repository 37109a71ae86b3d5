"""How far steps go, epoch by epoch: a fixed function, whatever is found on the way."""

from typing import Any

from recbench.errors import UsageError
from recbench.params import param

NEVER = "never"


def decay_at_parameter(default: str) -> Any:
    """The parameter of that name."""
    return param(default, help="epochs after which the rate is lowered, as in 20+30; or never")


def decay_parameter() -> Any:
    """The parameter of that name."""
    return param(0.1, help="what the rate is then multiplied by", low=0, high=1, open_low=True)


def lowered(rate: float, decay_at: str, decay: float, epoch: int) -> float:
    """How far a step of this epoch goes."""
    return rate * decay ** sum(1 for decayed in decays(decay_at) if epoch > decayed)


def decays(text: str) -> list[int]:
    """The epochs after which steps get smaller."""
    if text == NEVER:
        return []
    try:
        found = [int(word) for word in text.split("+")]
    except ValueError:
        found = [0]
    if any(epoch < 1 for epoch in found):  # what is not a number, too
        raise UsageError(
            f"parameter 'decay-at' is {text}; it must be {NEVER}, or numbers of epochs from 1 on "
            "with + between them, as in 20+30"
        )
    return found
