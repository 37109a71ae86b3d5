"""Published rows without known parameters: searched by grids of ours, chosen on validation.

What is found goes into a CSV file of the user's, one line per row, with how it was found. The next
check takes parameters and values from there, so that they too are noticed when they get worse. The
file is only added to: a line that its owner has changed is believed.
"""

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import recbench
from recbench.campaign.folder import now
from recbench.campaign.request import Finished, Request
from recbench.campaign.row import Row
from recbench.campaign.search.space import published
from recbench.campaign.selection import selected
from recbench.data.dataset import Dataset
from recbench.environment import source
from recbench.errors import DataError
from recbench.files import atomic_path
from recbench.params import format_value
from recbench.published.check import Finding, campaign_name, finding
from recbench.published.rows import Published
from recbench.registry import MODELS

P = "p=0.2,0.4,0.6,0.8"
L2 = "l2=1,10,100,1000"
GRIDS: Mapping[str, tuple[str, ...]] = {
    "ease": ("l2=1:10000:log9",),
    "dlae": (P, L2),
    "edlae": (P, L2),
    "rlae": (L2, "xi=0:1"),
    "rdlae": (P, L2, "xi=0:1"),
    "deql": ("p=0.1:0.9", "b=0.1:2"),
    "deql-l2": (P, "l2-effective=1,10,100,1000", "b=0.1:2"),
    "deql-l2-zero": (P, "l2-effective=1,10,100,1000", "b=0.1:2"),
}
"""What is tried for a model, as typed after --grid; equal (p, l2) share one inverse."""


@dataclass(frozen=True)
class RecordedParameters:
    """A line of the file: a published row, what reproduces it best by validation, and how so."""

    paper: str
    table: str
    dataset: str
    model: str
    metric: str
    part: str
    our_dataset: str
    our_split: str
    our_model: str
    value: float
    parameters: str
    ours: float
    select: str
    validation: float
    tried: int
    grid: str
    campaign: str
    trial: str
    fingerprint: str
    recbench: str
    commit: str
    found: str

    @property
    def key(self) -> tuple[str, ...]:
        """Which row it is about."""
        return _key(self)


KEY = [spec.name for spec in fields(RecordedParameters)][:9]


def _key(row: "Published | RecordedParameters") -> tuple[str, ...]:
    return tuple(getattr(row, name) for name in KEY)


def read_found(path: Path) -> dict[tuple[str, ...], RecordedParameters]:
    """What was found before; nothing where there is no file."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            records = [_from_line(line) for line in csv.DictReader(file)]
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"{path} is not a file of found parameters ({type(error).__name__}: {error}); "
            "mend it, or move it away to search again"
        ) from error
    return {one.key: one for one in records}


def _from_line(line: Mapping[str, str]) -> RecordedParameters:
    values: dict[str, Any] = {spec.name: line[spec.name] for spec in fields(RecordedParameters)}
    values |= {name: float(values[name]) for name in ("value", "ours", "validation")}
    return RecordedParameters(**values | {"tried": int(values["tried"])})


def with_found(
    rows: Sequence[Published], records: Mapping[tuple[str, ...], RecordedParameters]
) -> list[Published]:
    """The rows, with parameters that were found where the papers and we know none."""
    return [
        replace(row, parameters=records[_key(row)].parameters, ours=records[_key(row)].ours)
        if not row.parameters and _key(row) in records
        else row
        for row in rows
    ]


def write_found(path: Path, new: Sequence[RecordedParameters]) -> None:
    """Add lines to the file; what stands there already stays as it is."""
    records = read_found(path)
    lines = [*records.values(), *(one for one in new if one.key not in records)]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with (
            atomic_path(path) as temporary,
            temporary.open("w", encoding="utf-8", newline="") as file,
        ):
            writer = csv.DictWriter(file, [spec.name for spec in fields(RecordedParameters)])
            writer.writeheader()
            writer.writerows(asdict(one) for one in lines)
    except OSError as error:
        raise DataError(f"{path} cannot be written ({error.strerror})") from error


def searchable(model: str) -> bool:
    """Whether there is something to try for a model."""
    return bool(grid_of(model))


def grid_of(model: str) -> tuple[str, ...]:
    """What is tried: our grid, or every published value of every parameter that has some."""
    if model in GRIDS:
        return GRIDS[model]
    grids = published(MODELS.get(model), {})
    return tuple(f"{name}={values.text}" for name, values in grids.items())


def search_unknown(
    rows: Sequence[Published], dataset: Dataset, split: str,
    *, folder: Path, how: Request, found: Path,
) -> Iterator[tuple[Published, Finding]]:  # fmt: skip
    """Tune the models of rows on validation, test what is best, and record it."""
    able = [row for row in rows if searchable(row.our_model)]
    yield from ((row, Finding(row, "no grid to search")) for row in rows if row not in able)
    if not able:
        return
    output = folder / campaign_name(dataset.name, split)
    where = replace(how, data=dataset, split=split, output=output, same_code=True)
    finished = _tuning(able, where).run()
    recorded = []
    for row in able:
        mine = [result for result in finished.rows if result.model == row.our_model]
        best = selected(mine, finished.plan.select)
        parts = {result.part: result for result in mine if result.trial in best}
        if row.part not in parts or parts[row.part].status != "ok":
            reasons = [result.reason for result in mine if result.reason]
            yield row, Finding(row, f"search failed: {(reasons or ['nothing was measured'])[0]}")
            continue
        known = replace(row, parameters=_parameters(parts[row.part]))
        tried = sum(result.part == "valid" for result in mine)
        recorded.append(_record(known, parts, finished, tried))
        yield row, finding(known, parts[row.part])
    write_found(found, recorded)


def _tuning(rows: Sequence[Published], how: Request) -> Request:
    """The grid of every model that rows are about, chosen from by an NDCG if there is one."""
    names = list(dict.fromkeys(row.our_model for row in rows))
    metrics = list(dict.fromkeys(row.metric for row in rows))
    return replace(
        how,
        models=names,
        grids=[f"{name}.{grid}" for name in names for grid in grid_of(name)],
        metrics=metrics,
        validate=True,
        select=next((metric for metric in metrics if metric.startswith("ndcg")), None),
    )


def _parameters(row: Row) -> str:
    return " ".join(f"{k}={format_value(v)}" for k, v in row.parameters.items() if v is not None)


def _record(
    row: Published, parts: Mapping[str, Row], finished: Finished, tried: int
) -> RecordedParameters:
    result, select = parts[row.part], finished.plan.select
    key: dict[str, Any] = {name: getattr(row, name) for name in KEY}
    return RecordedParameters(
        **key, value=row.value, parameters=row.parameters, ours=result.metrics[row.metric],
        select=select, validation=parts["valid"].metrics[select], tried=tried,
        grid=" ".join(grid_of(row.our_model)), campaign=str(finished.campaign.folder),
        trial=result.trial, fingerprint=result.fingerprint, recbench=recbench.__version__,
        commit=str(source()["commit"] or ""), found=now(),
    )  # fmt: skip
