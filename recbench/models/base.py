"""The interface of models: Model, and Family where models share work."""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, ClassVar, Generic, TypeVar

from recbench.errors import RecbenchError, check_takes, home_of, located, of_kind
from recbench.linalg.types import Sparse
from recbench.models.context import Context
from recbench.models.scorers import Scorer
from recbench.params import Described

Fit = Scorer | RecbenchError
"""A fitted model, or why this one of a group could not be fitted."""

M = TypeVar("M")


HINT = (
    "return Scorer(Factors(users, items)) for factors, Scorer(ItemItem(weights)) for weights of "
    "items x items, Scorer(Constant(scores)) for one score of each item, or Scorer(...) of a Base "
    "of your own, whose `score` gives a block of users x items"
)
"""What a fit returns, for those who return something else."""


class Family(ABC, Generic[M]):
    """Fits many models on one train matrix, doing the work they share once.

    Models with equal `key` form a group and are fitted together. M is what a family needs to know
    of its models: a class, or a Protocol that several classes meet.
    """

    reserves: ClassVar[bool] = False
    """Whether a fit asks `ctx.reserve` before anything that takes long, as a dry run may then."""

    spreads: ClassVar[bool] = False
    """Whether a fit leaves its inverse to `ctx.holders` where there are any."""

    @abstractmethod
    def key(self, model: M) -> Hashable:
        """Name the heavy step this model needs; equal keys are fitted in one go."""

    @abstractmethod
    def fit(self, models: Sequence[M], train: Sparse, ctx: Context) -> Sequence[Fit]:
        """Fit a group of models of equal key; one Scorer each, in order.

        What stops all of them is raised. What stops one is returned in its place.
        """

    def refuse(self, models: Sequence[M], train: Sparse, ctx: Context) -> None:
        """Raise Refused where a fit would, whatever the machine has; a dry run asks beforehand."""

    def operations(self, models: Sequence[M], train: Sparse, ctx: Context) -> float | None:
        """Floating-point operations of fitting a group, nearly all in matrix products; None where
        that cannot be told beforehand.
        """
        return None


class Alone(Family["Model"]):
    """Fits models that share nothing."""

    def key(self, model: "Model") -> Hashable:
        """Its text: every model is a group of its own."""
        return model.text

    def fit(self, models: Sequence["Model"], train: Sparse, ctx: Context) -> Sequence[Fit]:
        """Fit one after the other."""
        for model in models:
            if type(model).fit is Model.fit:  # which would ask this family
                raise RecbenchError(
                    f"{model.name} has no fit: give its class a method fit(self, train, ctx), or a "
                    "family that fits it"
                )
            what = f"fit of {model.name}"
            check_takes(model.fit, (train, ctx), what, "fit(self, train, ctx)")
        return [
            of_kind(model.fit(train, ctx), Scorer, type(model).fit, f"fit of {model.name}", HINT)
            for model in models
        ]


class Model(Described):
    """Hyper-parameters, frozen, whose `fit` returns a Scorer.

    Subclasses are dataclasses with `param` fields, registered under a name. A model knows its
    arithmetic; it never sees held-out data, metrics or files.
    """

    family: ClassVar[Family[Any]] = Alone()
    cite: ClassVar[str] = ""
    one_part: ClassVar[bool] = False
    """Whether a fit serves the part it was made for and no other."""
    stochastic: ClassVar[bool] = False
    """Whether the seed matters; a model without randomness is run once, whatever the seeds."""
    traced: ClassVar[bool] = False
    """Whether scorers have a `trace`: one mapping of names to numbers for each round of the fit."""
    extra: ClassVar[str] = ""
    """The extra that a fit needs, called like the package it brings; empty: none."""
    trained_users_only: ClassVar[bool] = False
    """Whether a fitted model has no scores for users who were not in the train matrix."""

    @property
    def shown(self) -> str:
        """What tables call it; the best of those that are called the same is selected."""
        return self.name

    @property
    def goal(self) -> str:
        """What a trace's objective is of: that of two models with the same can be compared."""
        return self.text

    @property
    def most_rounds(self) -> int:
        """How many rounds a fit makes at most, and may be stopped after; 0: it goes in none."""
        return 0

    @property
    def idle(self) -> Mapping[str, str]:
        """Parameters that change nothing beside the values of others, and why."""
        values = self.values()
        alone = "every" in values and not values.get("patience")
        return {"every": "patience is 0, and validation is not asked"} if alone else {}

    @property
    def reserves(self) -> bool:
        """Whether its family does; a model that is fitted alone may say so itself."""
        return self.family.reserves

    def fit(self, train: Sparse, ctx: Context) -> Scorer:
        """Fit one model. Models of a sharing family inherit this and implement the family."""
        return fit_alone(self, train, ctx)


def fit_alone(model: Model, train: Sparse, ctx: Context) -> Scorer:
    """Fit one model by its family, as a run does, or raise why it could not be fitted."""
    (fitted,) = fit_together([model], train, ctx)
    if isinstance(fitted, RecbenchError):
        raise fitted
    return fitted


def fit_together(models: Sequence[Model], train: Sparse, ctx: Context) -> list[Fit]:
    """Fit models of one group by their family, and see that each has a Scorer, or a reason."""
    family = models[0].family
    what = f"fit of the family of {models[0].name}"
    instead = "return a list with one Scorer for each model, in order"
    check_takes(family.fit, (models, train, ctx), what, "fit(self, models, train, ctx)")
    fits = of_kind(family.fit(models, train, ctx), Sequence, type(family).fit, what, instead)  # type: ignore[type-abstract]
    if len(fits) != len(models):
        words = f"{what} returned {len(fits)} for {len(models)} models; {instead}"
        raise RecbenchError(located(words, home_of(type(family).fit)))
    for fit in fits:
        if not isinstance(fit, RecbenchError):
            of_kind(fit, Scorer, type(family).fit, what, HINT)
    return [*fits]
