"""Which trials of a model make one landscape: those that one campaign varied on purpose.

A folder may hold a grid over two parameters, then a random search, then a grid over a third. Put
into one picture they would be neither a map nor a curve. So trials are taken by the command that
ran them, and by what cannot be a place on an axis: words, and the precision of numbers. A command
that was resumed or went on along the same parameters belongs to what it went on with.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from recbench.campaign.manifest import Run
from recbench.campaign.row import Row
from recbench.params import Value, format_value

Origin = tuple[str, str]
"""What proposed trials, such as a grid, and the command that it was for."""


@dataclass
class Sweep:
    """Trials of one model, the parameters that they vary and those that they share."""

    kind: tuple[object, ...]
    rows: list[Row]
    varied: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        """See what varies: numbers do."""
        names = dict.fromkeys(name for row in self.rows for name in row.parameters)
        self.varied = tuple(name for name in names if len(self._values(name)) > 1)

    def _values(self, name: str) -> set[Value]:
        return {value for row in self.rows if (value := row.parameters.get(name)) is not None}

    def has(self, other: "Sweep") -> bool:
        """Whether another differs from this one in nothing but what this one varies."""
        first = self.rows[0].parameters
        return self.kind == other.kind and all(
            row.parameters.get(name) == first.get(name)
            for row in other.rows
            for name in {*first, *row.parameters}
            if name not in self.varied
        )

    def words(self, others: Sequence["Sweep"]) -> str:
        """What tells it from the other sweeps of its model."""
        if len(others) < 2:
            return ""
        first = self.rows[0]
        told = [
            f"{name}={format_value(value)}"
            for name, value in first.parameters.items()
            if name not in self.varied
            and any(row.parameters.get(name) != value for one in others for row in one.rows)
        ]
        told += [first.dtype] if len({one.rows[0].dtype for one in others}) > 1 else []
        told += [str(self.kind[0])] if len({one.kind[0] for one in others}) > 1 else []
        return ", ".join(told)


def origins(runs: Sequence[Run]) -> dict[str, Origin]:
    """By run: its search and its command."""
    return {
        run["id"]: (str(run.get("search", {}).get("by", "")), " ".join(run["command"]))
        for run in runs
    }


def sweeps(rows: Sequence[Row], known: Mapping[str, Origin]) -> list[Sweep]:
    """The trials of one model, campaign by campaign; the largest first."""
    groups: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        search, command = known.get(row.run, ("", row.run))
        groups.setdefault((search, row.dtype, _held(row), command), []).append(row)
    found: list[Sweep] = []
    single: dict[tuple[object, ...], list[Row]] = {}
    made = [Sweep(key[:-1], group) for key, group in groups.items()]
    for one in sorted(made, key=lambda one: (-len(one.varied), -len(one.rows))):
        home = next((other for other in found if other.has(one)), None)
        if home is not None:
            home.rows += one.rows
        elif one.varied:
            found.append(one)
        else:  # one trial to a command, as a loop in a shell runs them
            single.setdefault(one.kind, []).extend(one.rows)
    return found + [Sweep(kind, rows) for kind, rows in single.items()]


def _held(row: Row) -> tuple[tuple[str, Value], ...]:
    """The parameters that are words or flags."""
    return tuple(
        (name, value)
        for name, value in sorted(row.parameters.items())
        if isinstance(value, str | bool)
    )
