"""Made-up interactions of any size: `synthetic:users=1000,items=500,interactions=20000`.

Items follow a power law, users a log-normal law, and every user likes a few of the tastes that
items belong to; so popularity is a fair guess and a model of tastes a clearly better one. The
numbers come from NumPy's frozen `RandomState` streams, one per block of users, and the blocks do
not depend on the number of threads: the same text gives the same bytes.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import ClassVar, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from recbench.data.dataset import Dataset
from recbench.errors import UsageError
from recbench.linalg.types import Counts, Indices, Vector
from recbench.params import Described, format_value, make, param

PREFIX = "synthetic"
LIKE = "like"
"""What may be typed instead of sizes: the name of a dataset that has them."""
FEWEST = 5
"""Interactions that every user gets if there are enough, as after a 5-core."""
ACTIVITY = 1.2
"""Sigma of the log-normal law of user activity; ML-20M and Netflix are near it."""
HEAD = 0.005
"""The share of items in the flat head of the power law: no film is seen by everybody."""
SHARES = (0.1, 0.45, 0.3, 0.15)
"""How often a user picks by popularity alone, and by the first, second and third taste."""
MEMBERSHIP = (0.8, 0.2)
"""How much an item belongs to its first and its second taste."""
MOST_TASTES = 64
"""Tastes grow with the root of the number of items up to this many."""
BLOCK = 1 << 20
"""Interactions drawn together; part of what a seed means, so a constant."""
ROUNDS = 8
"""Draws with rejection before what is missing is drawn exactly, which costs a pass over items."""

Whole = TypeVar("Whole", np.int32, np.int64)


@dataclass(frozen=True)
class Synthetic(Described):
    """What to generate."""

    name: ClassVar[str] = PREFIX

    users: int = param(10_000, low=1, high=2**31 - 1, help="number of users")
    items: int = param(2_000, low=1, high=2**31 - 1, help="number of items")
    interactions: int = param(500_000, low=1, high=10**10, help="number of interactions, exactly")
    skew: float = param(1.0, low=0, high=3, help="exponent of the items' power law; 0 is flat")
    seed: int = param(0, low=0, high=2**32 - 1, help="another seed, other interactions")

    def __post_init__(self) -> None:
        """Refuse what cannot be generated."""
        super().__post_init__()
        if self.interactions > self.users * self.items:
            raise UsageError(
                f"{self.interactions} interactions do not fit in {self.users} users x {self.items} "
                f"items; ask for at most {self.users * self.items}, as in "
                f"{PREFIX}:users={self.users},items={self.items},"
                f"interactions={self.users * self.items // 10}"
            )
        if self.interactions < max(self.users, self.items):
            raise UsageError(
                f"{self.interactions} interactions cannot give each of {self.users} users and "
                f"{self.items} items one; ask for at least {max(self.users, self.items)}"
            )

    @property
    def text(self) -> str:
        """The canonical text, as typed: `synthetic:users=…,items=…`."""
        return f"{PREFIX}:" + ",".join(f"{k}={format_value(v)}" for k, v in self.values().items())


def parse(text: str, sizes: Callable[[str], Mapping[str, int]] = lambda name: {}) -> Synthetic:
    """Read `synthetic:users=…,items=…`; a parameter that is left out has its default.

    `like=NAME` stands for the `sizes` of a dataset of that name.
    """
    head, _, tail = text.partition(":")
    if head != PREFIX:
        raise UsageError(f"'{text}' is not a synthetic dataset; it starts with '{PREFIX}:'")
    given = {}
    for pair in filter(None, tail.split(",")):
        key, equals, value = pair.partition("=")
        if not equals:
            raise UsageError(f"'{pair}' in '{text}' is not name=value; try 'users=1000'")
        given[key.strip()] = value.strip()
    if LIKE in given:
        given = {k: str(v) for k, v in sizes(given.pop(LIKE)).items()} | given
    return make(Synthetic, given)


def generate(spec: Synthetic, threads: int | None = None) -> Dataset:
    """Make the dataset; rows are ordered by user, then item."""
    degrees = activity(spec)
    tastes = Tastes.of(spec)
    ends = np.cumsum(degrees)
    item = np.empty(spec.interactions, dtype=np.int32)

    def fill(number: int, first: int, last: int) -> None:
        start = ends[first] - degrees[first]
        draw = tastes.draw(_stream(spec, 1, number), degrees[first:last])
        item[start : ends[last - 1]] = draw

    with ThreadPoolExecutor(threads or os.cpu_count()) as pool:
        for done in [pool.submit(fill, n, *block) for n, block in enumerate(_user_blocks(ends))]:
            done.result()
    user = np.repeat(np.arange(spec.users, dtype=np.int32), degrees)
    give_every_item_one(_stream(spec, 2), user, item, spec.items)
    user_ids, item_ids = (pa.array(np.arange(n, dtype=np.int64)) for n in (spec.users, spec.items))
    provenance = {"generator": spec.text, "revision": spec.revision}
    return Dataset(spec.text, user, item, user_ids, item_ids, provenance=provenance)


def _stream(spec: Synthetic, *key: int) -> np.random.RandomState:
    seed = np.random.SeedSequence(spec.seed, spawn_key=key)
    return np.random.RandomState(np.random.MT19937(seed))


def _user_blocks(ends: Counts) -> Iterator[tuple[int, int]]:
    """Cut users into runs of about BLOCK interactions."""
    first = 0
    while first < len(ends):
        base = ends[first - 1] if first else 0
        last = max(first + 1, int(np.searchsorted(ends, base + BLOCK, side="right")))
        yield first, last
        first = last


def activity(spec: Synthetic) -> Counts:
    """Share the interactions out to users: a few for everybody, the rest log-normal."""
    fewest = min(FEWEST, spec.interactions // spec.users)
    most = min(spec.items, max(spec.items // 2, -(-3 * spec.interactions // (2 * spec.users))))
    weight = np.exp(ACTIVITY * _stream(spec, 0).standard_normal(spec.users))
    free = np.ones(spec.users, dtype=np.bool_)
    shares = np.full(spec.users, float(most))
    while free.any():
        rest = spec.interactions - fewest * free.sum() - most * (~free).sum()
        shares[free] = fewest + weight[free] * (rest / weight[free].sum())
        above = free & (shares >= most)
        if not above.any():
            break
        shares[above] = most
        free &= ~above
    degrees: Counts = np.floor(shares).astype(np.int64)
    short = spec.interactions - int(degrees.sum())
    largest_remainders = np.argsort(degrees - shares, kind="stable")[:short]
    degrees[largest_remainders] += 1
    return degrees


@dataclass(frozen=True)
class Tastes:
    """Distributions over items: by popularity, then one per taste, laid end to end.

    `cumulated` rises from 0 to the number of distributions; a number in [t, t + 1) looked up in
    it falls on an item of distribution t.
    """

    cumulated: Vector
    item: Indices
    popularity: Vector
    n_tastes: int

    @classmethod
    def of(cls, spec: Synthetic) -> "Tastes":
        """Give every item a popularity and two tastes."""
        random = _stream(spec, 0, 0)
        rank = random.permutation(spec.items) + (1 + HEAD * spec.items)
        popularity = np.asarray(rank**-spec.skew, dtype=np.float64)
        n = max(1, min(MOST_TASTES, round(spec.items**0.5 / 2)))
        taste = [np.zeros(spec.items, dtype=np.int64)]
        taste += [1 + random.permutation(spec.items) % n for _ in MEMBERSHIP]
        weight = np.concatenate([popularity * share for share in (1.0, *MEMBERSHIP)])
        where = np.concatenate(taste)
        order = np.argsort(where, kind="stable")
        item = np.tile(np.arange(spec.items, dtype=np.int32), len(taste))[order]
        return cls(_cumulate(weight[order], where[order]), item, popularity, n)

    def draw(self, random: np.random.RandomState, degrees: Counts) -> Indices:
        """Draw distinct items for a block of users; sorted by user, then item."""
        n_items = len(self.popularity)
        tastes = random.randint(1, self.n_tastes + 1, size=(len(degrees), len(SHARES)))
        tastes[:, 0] = 0
        bounds = np.cumsum(SHARES)[:-1]
        key = np.empty(0, dtype=np.int64)
        missing = degrees
        for _ in range(ROUNDS):
            user = np.repeat(np.arange(len(degrees)), missing)
            nth = np.searchsorted(bounds, random.random_sample(len(user)), side="right")
            mark = tastes[user, nth] + random.random_sample(len(user))
            place = np.searchsorted(self.cumulated, mark, side="right")
            place = np.minimum(place, len(self.item) - 1)  # a mark may have been rounded up
            key = _distinct(np.concatenate([key, user * n_items + self.item[place]]))
            missing = degrees - np.bincount(key // n_items, minlength=len(degrees))
            if not missing.any():
                break
        rest = [self._rest(random, key, int(u), int(missing[u])) for u in np.flatnonzero(missing)]
        return (np.sort(np.concatenate([key, *rest])) % n_items).astype(np.int32)

    def _rest(self, random: np.random.RandomState, key: Counts, user: int, missing: int) -> Counts:
        """Draw what a heavy user still misses by popularity, without replacement.

        The smallest of Exp(1) / p are such a draw (Efraimidis and Spirakis 2006).
        """
        n_items = len(self.popularity)
        first, last = np.searchsorted(key, [user * n_items, (user + 1) * n_items])
        race = random.standard_exponential(n_items) / self.popularity
        race[key[first:last] - user * n_items] = np.inf
        return user * n_items + np.argpartition(race, missing - 1)[:missing]


def _distinct(values: npt.NDArray[Whole]) -> npt.NDArray[Whole]:
    """Sort in place and drop repeats; np.unique hashes, which is ten times slower here."""
    values.sort()
    keep = np.ones(len(values), dtype=np.bool_)
    np.not_equal(values[1:], values[:-1], out=keep[1:])
    return values[keep]


def _cumulate(weight: Vector, where: Counts) -> Vector:
    """Cumulate weights within each distribution, scaled so that distribution t ends at t + 1."""
    parts = []
    for t, values in enumerate(np.split(weight, np.flatnonzero(np.diff(where)) + 1)):
        total = np.cumsum(values)
        part = t + total / total[-1]
        part[-1] = t + 1
        parts.append(part)
    return np.concatenate(parts)


def give_every_item_one(
    random: np.random.RandomState, user: Indices, item: Indices, n_items: int
) -> None:
    """Put each item that nobody drew in the place of a draw that can be spared."""
    unseen = np.flatnonzero(np.bincount(item, minlength=n_items) == 0)
    if not len(unseen):
        return
    spare = np.ones(len(item), dtype=np.bool_)
    last = np.full(n_items, -1, dtype=np.int64)
    last[item] = np.arange(len(item))
    spare[last[last >= 0]] = False
    candidates = np.flatnonzero(spare)
    rows = candidates[_distinct(random.randint(0, len(candidates), size=2 * len(unseen)))]
    if len(rows) < len(unseen):
        rows = candidates
    rows = random.permutation(rows)[: len(unseen)]
    item[rows] = unseen
    touched = _distinct(user[rows])
    starts, ends = np.searchsorted(user, touched), np.searchsorted(user, touched, side="right")
    for start, end in zip(starts, ends, strict=True):
        item[start:end].sort()
