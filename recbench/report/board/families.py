"""What kind of model a name is, as the documentation groups them."""

from functools import cache

from recbench.errors import UsageError
from recbench.registry import MODELS

OF_MODULES = {
    "recbench.models.linear.lae": "linear autoencoders",
    "recbench.models.linear": "spectral and low-rank",
    "recbench.models.factors": "alternating least squares",
    "recbench.models.trained": "trained by gradients",
}
"""By where the code is; the first that fits."""
OTHERS = "others"
FAMILIES = (*OF_MODULES.values(), OTHERS)


@cache
def family(model: str) -> str:
    """The family of a model; others for what is of somebody else or not installed."""
    try:
        module = MODELS.get(model).__module__
    except UsageError:
        return OTHERS
    return next((words for start, words in OF_MODULES.items() if module.startswith(start)), OTHERS)
