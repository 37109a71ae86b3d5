"""What a group of trials needs of the machine that fits it, asked of the models themselves.

A fit reserves its memory before it begins. A probe lets it come that far and no further.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from recbench.errors import Refused, check_takes
from recbench.linalg.locked import locked
from recbench.linalg.types import Sparse
from recbench.models.base import Model
from recbench.models.context import Context


@dataclass(frozen=True)
class Asked:
    """What a fit asks for before it begins."""

    size: int
    what: str
    on_disk: bool


@dataclass(frozen=True)
class Needs:
    """Bytes of memory and of scratch space that a group takes; None is unknown."""

    memory: int | None = None
    disk: int = 0


class _Demand(Exception):
    """A fit asked for memory: that is all a probe wants to know."""

    def __init__(self, asked: Asked) -> None:
        super().__init__(asked)
        self.asked = asked


class _Probe(Context):
    """Lets a fit get no further than to what it asks for."""

    def reserve(self, needed: int, what: str, advice: str) -> None:
        raise _Demand(Asked(needed, what, on_disk=False))

    def reserve_disk(self, needed: int, what: str) -> None:
        raise _Demand(Asked(needed, what, on_disk=True))


def asked_for(models: Sequence[Model], train: Sparse, ctx: Context) -> Asked | None:
    """What fitting these models together would ask for; None if they do not say."""
    if not models[0].reserves:
        return None
    probe = _Probe(
        threads=ctx.threads, dtype=ctx.dtype, scratch=ctx.scratch, strangers=ctx.strangers
    )
    try:
        models[0].family.fit(models, locked(train), probe)
    except _Demand as demand:
        return demand.asked
    except (Exception, SystemExit):  # noqa: BLE001 - whatever it is, it will be a row with a reason
        return None
    return None


def needs_of(models: Sequence[Model], train: Sparse, ctx: Context) -> Needs:
    """What fitting these models together takes, as far as they say."""
    asked = asked_for(models, train, ctx)
    if asked is None:
        return Needs()
    return Needs(0, asked.size) if asked.on_disk else Needs(asked.size)


def refusal_of(models: Sequence[Model], train: Sparse, ctx: Context) -> str:
    """Why these models would be skipped where they are to be fitted; empty: they would not."""
    try:
        models[0].family.refuse(models, train, ctx)
    except Refused as error:
        return str(error)
    return ""


def operations_of(models: Sequence[Model], train: Sparse, ctx: Context) -> float | None:
    """Operations of fitting these models together, nearly all in matrix products, if it says."""
    count, given = models[0].family.operations, (models, train, ctx)
    what = f"operations of the family of {models[0].name}"
    check_takes(count, given, what, "operations(self, models, train, ctx)")
    return count(*given)
