"""The trained models by name: an encoder, a loss, and how it is trained."""

import re
from collections.abc import Mapping
from dataclasses import make_dataclass, replace
from typing import Any

from recbench.models.base import Model
from recbench.models.factors import losses as quadratic
from recbench.models.factors.losses import QuadraticLoss, goal_of
from recbench.models.trained import encoders, histories
from recbench.models.trained.contrast import SglEd as Contrast
from recbench.models.trained.encoders import Encoder
from recbench.models.trained.loss import Loss
from recbench.models.trained.losses import contrastive, logistic, pairs, softmax
from recbench.models.trained.training import TrainedFamily, Training, check, idle
from recbench.params import Described, held, inlined
from recbench.registry import LOSSES, MODELS

STEPS = ("epochs", "rate", "decay_at", "decay", "batch", "optimizer", "clip", "patience", "every")
"""Fields of training that say how steps are made, and nothing of what they make least."""


def _any_loss(name: str, encoder: Any, default: str, doc: str, cite: str, **training: Any) -> Any:
    """The model of this name: an encoder that may be trained on any loss."""
    loss = held(
        LOSSES, default, help="what is minimised, as in loss=softmax or loss=ccl[margin=0.5]"
    )
    return _made(name, encoder, (Loss | QuadraticLoss, loss), doc, cite, training)


def _one_loss(name: str, encoder: Any, loss: Any, doc: str, **training: Any) -> Any:
    """The model of this name: an encoder and a loss whose parameters are the model's own."""
    return _made(name, encoder, (loss, inlined(loss)), doc, loss.cite, training)


def _identity(model: Any) -> str:
    """What every model has; since quadratic losses make no scores their last digits are others."""
    identity = vars(Described)["identity"].fget(model)
    return f"{identity} squares@2" if isinstance(model.loss, QuadraticLoss) else identity


def _goal(model: Any) -> str:
    """What is minimised, whatever the steps: of quadratic losses what others minimise, too."""
    training, encoder, loss = model.training, model.encoder, model.loss
    layers = encoders.layers_of(encoder)
    if isinstance(loss, QuadraticLoss) and training.l2 == 0 and layers is not None:
        return goal_of(loss, training.factors, layers)
    told = replace(training, **{name: getattr(Training(), name) for name in STEPS})
    return f"{loss.text} {encoder.text} {told.text}"


def _idle(model: Any) -> Mapping[str, str]:
    """What changes nothing in any model, and in one that is trained."""
    return {**vars(Model)["idle"].fget(model), **idle(model)}


def _sensible(model: Any) -> None:
    """Check every parameter, and that the parts go together."""
    Model.__post_init__(model)
    check(model)


def _made(
    name: str, encoder: Any, loss: tuple[Any, Any], doc: str, cite: str, training: dict[str, Any]
) -> Any:
    """A model class; `training` has defaults of its own for parameters of training and encoder."""
    namespace = {"family": TrainedFamily(), "stochastic": True, "traced": True}
    namespace |= {"cite": cite, "__doc__": doc, "__module__": __name__}
    namespace["__post_init__"] = _sensible
    namespace["goal"] = property(_goal)
    namespace["identity"] = property(_identity)
    namespace["idle"] = property(_idle)
    namespace["most_rounds"] = property(lambda model: model.training.epochs)
    known = {field: value for field, value in training.items() if field in Training.__annotations__}
    rest = {field: value for field, value in training.items() if field not in known}
    fields = [
        ("training", Training, inlined(Training, **known)),
        ("encoder", Encoder, inlined(encoder, **rest)), ("loss", *loss),
    ]  # fmt: skip
    # What it is called in this module, where other processes look for it.
    title = "".join(word.capitalize() for word in re.split("[-+]", name))
    made = make_dataclass(title, fields, bases=(Model,), namespace=namespace, frozen=True)
    return MODELS.register(name)(made)


Mf = _any_loss(
    "mf", encoders.Mf, "softmax",
    "Matrix factorisation by gradients, on any loss.",
    "Koren, Bell, Volinsky (2009), Matrix Factorization Techniques for Recommender Systems",
)  # fmt: skip
Lightgcn = _any_loss(
    "lightgcn", encoders.LightGcn, "bpr",
    "LightGCN: vectors are averaged over walks on the graph of interactions; any loss.",
    "He et al. (2020), LightGCN: Simplifying and Powering Graph Convolution Network",
    rate=0.003, l2=1e-4, draw="users", epochs=200, decay_at="never",
)  # fmt: skip
SglEd = _any_loss(
    "sgl-ed", Contrast, "bpr",
    "SGL-ED: LightGCN that also tells nodes apart on graphs with missing edges; any loss.",
    "Wu et al. (2021), Self-supervised Graph Learning for Recommendation",
    rate=0.001, batch=2048, l2=1e-4, epochs=25, decay_at="never",
)  # fmt: skip
Simplex = _any_loss(
    "simplex", histories.Simplex, "ccl",
    "SimpleX: a user is a vector of his own and what he has, on the cosine contrastive loss.",
    contrastive.Ccl.cite, rate=0.001, drawn=2048, epochs=40, decay_at="28+35",
)  # fmt: skip
Youtubenet = _any_loss(
    "youtubenet", histories.YoutubeNet, "infonce[against=800,t=1]",
    "YouTubeNet: a user is the mean of what he has, on a softmax over drawn items.",
    "Covington, Adams, Sargin (2016), Deep Neural Networks for YouTube Recommendations",
    score="dot", rate=0.001, drawn=2048, epochs=40, decay_at="28+35",
)  # fmt: skip

MfCcl = _one_loss(
    "mf-ccl", encoders.Mf, contrastive.Ccl, "Matrix factorisation on the cosine contrastive loss."
)
MfCclDebiased = _one_loss(
    "mf-ccl-debiased", encoders.Mf, contrastive.CclDebiased,
    "Matrix factorisation on the debiased cosine contrastive loss.",
)  # fmt: skip
MfInfonce = _one_loss(
    "mf-infonce", encoders.Mf, softmax.InfoNce, "Matrix factorisation on InfoNCE."
)
MfInfonceDebiased = _one_loss(
    "mf-infonce-debiased", encoders.Mf, softmax.InfoNceDebiased,
    "Matrix factorisation on debiased InfoNCE.",
)  # fmt: skip
MfMine = _one_loss("mf-mine", encoders.Mf, softmax.Mine, "Matrix factorisation on MINE.")
MfMinePlus = _one_loss(
    "mf-mine-plus", encoders.Mf, softmax.MinePlus, "Matrix factorisation on MINE+."
)
SsmMf = _one_loss(
    "ssm-mf",
    encoders.Mf,
    softmax.Ssm,
    "Matrix factorisation on sampled softmax with in-batch items.",
)
SsmGnn = _one_loss(
    "ssm-gnn", encoders.LightGcn, softmax.Ssm, "LightGCN on sampled softmax with in-batch items.",
    layers=1,
)  # fmt: skip
Ssm = _any_loss(
    "ssm", encoders.Mf, "infonce[against=100,t=1]",
    "Matrix factorisation on a softmax over each interaction and as many items as are drawn.",
    "Wu et al. (2024), On the Effectiveness of Sampled Softmax Loss for Item Recommendation",
    score="dot",
)  # fmt: skip
Softmax = _one_loss("softmax", encoders.Mf, softmax.Softmax, "Matrix factorisation on softmax.")
Sparsemax = _one_loss(
    "sparsemax", encoders.Mf, softmax.Sparsemax, "Matrix factorisation on sparsemax."
)
Bce = _one_loss("bce", encoders.Mf, logistic.Bce, "Matrix factorisation on binary cross-entropy.")
Uib = _one_loss(
    "uib", encoders.Mf, logistic.Uib, "Matrix factorisation on user interest boundaries."
)
Bpr = _one_loss(
    "bpr", encoders.Mf, pairs.Bpr, "Bayesian personalised ranking: matrix factorisation on pairs.",
    rate=0.001, drawn=1, l2=1e-4, epochs=100, decay_at="never",
)  # fmt: skip
MfBpr = _one_loss(
    "mf-bpr", encoders.Mf, pairs.Bpr,
    "Bayesian personalised ranking against many items for each interaction.",
    rate=0.001, negatives="shared", drawn=512, l2=1e-4, epochs=40, decay_at="28+35",
)  # fmt: skip
Cml = _one_loss(
    "cml", encoders.Mf, pairs.Cml, "Collaborative metric learning: near is what is liked.",
    rate=0.001, negatives="shared", drawn=512, epochs=40, decay_at="28+35",
)  # fmt: skip
Sml = _one_loss(
    "sml", encoders.Mf, pairs.Sml, "Symmetric metric learning, with margins that are learned.",
    rate=0.001, negatives="shared", drawn=512, epochs=40, decay_at="28+35",
)  # fmt: skip

PAIRED = {"rate": 0.003, "draw": "users", "l2": 1e-4, "decay_at": "never"}
"""How LightGCN is trained on losses that compare pairs; on others like mf, against all items."""


def _on_graph(loss: Any) -> Any:
    """LightGCN on one loss, under the name that papers give it."""
    training = PAIRED if getattr(loss, "pairs", False) else {}
    doc = f"LightGCN on the loss {loss.name}."
    return _one_loss(f"lightgcn+{loss.name}", encoders.LightGcn, loss, doc, **training)


LightgcnSoftmax = _on_graph(softmax.Softmax)
LightgcnMine = _on_graph(softmax.Mine)
LightgcnMinePlus = _on_graph(softmax.MinePlus)
LightgcnSsm = _on_graph(softmax.Ssm)
LightgcnInfonce = _on_graph(softmax.InfoNce)
LightgcnInfonceDebiased = _on_graph(softmax.InfoNceDebiased)
LightgcnSparsemax = _on_graph(softmax.Sparsemax)
LightgcnCcl = _on_graph(contrastive.Ccl)
LightgcnCclDebiased = _on_graph(contrastive.CclDebiased)
LightgcnBce = _on_graph(logistic.Bce)
LightgcnUib = _on_graph(logistic.Uib)
LightgcnCml = _on_graph(pairs.Cml)
LightgcnSml = _on_graph(pairs.Sml)
LightgcnRg2 = _on_graph(quadratic.Rg2)
LightgcnRgx = _on_graph(quadratic.Rgx)
LightgcnMse = _on_graph(quadratic.Mse)
LightgcnMseDebiased = _on_graph(quadratic.MseDebiased)
