"""What the winners of a run leave besides numbers: fitted models, and the lists of the test users.

    DIR/DATASET-MODEL[-SEED]/        a model, as `recbench recommend --saved` takes it
    DIR/DATASET-MODEL[-SEED].parquet the lists: user, rank, item, score
    DIR/DATASET-MODEL[-SEED].run     the same as TREC has it: user Q0 item rank score name
    DIR/DATASET.qrels                what the users have held out: user 0 item 1

Each says which trial it is of, so a run knows what is missing.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from recbench.campaign.plan import Plan, Trial
from recbench.errors import DataError, RecbenchError, UsageError
from recbench.evaluate.evaluate import rank
from recbench.files import atomic_path
from recbench.linalg.topk import Top
from recbench.models.scorers import Scorer
from recbench.splits.types import Part, Split

NOTE = b"recbench"


@dataclass(frozen=True)
class Keep:
    """Where models and lists go; None: they do not."""

    models: Path | None = None
    lists: Path | None = None

    @property
    def anything(self) -> bool:
        """Whether there is anything to keep."""
        return self.models is not None or self.lists is not None

    def check(self) -> None:
        """Refuse what can be no folder, before anything is fitted for it."""
        for option, folder in (("--save", self.models), ("--save-lists", self.lists)):
            there = None if folder is None else _first_there(folder)
            if there is not None and not there.is_dir():
                raise UsageError(
                    f"{option} {folder}: {there} is a file; give a folder, there or not"
                )

    def lacks(self, trial: Trial, plan: Plan) -> bool:
        """Whether something of this trial is wanted and not there."""
        name = _name(trial, plan)
        if self.models is not None:
            from recbench.models.save import trial_in  # brings what most runs do not need

            if trial_in(self.models / name) != trial.id:
                return True
        return self.lists is not None and _trial_of(self.lists / f"{name}.parquet") != trial.id

    def take(self, trial: Trial, scorer: Scorer, plan: Plan, split: Split) -> None:
        """Keep what is wanted of a model that was fitted for the test: if not both, then one."""
        wanted = ((self.models, _keep_model), (self.lists, _keep_lists))
        problems = list[RecbenchError]()
        for folder, keep in wanted:
            if folder is None:
                continue
            try:
                keep(folder, trial, scorer, plan, split)
            except OSError as error:
                what = error.filename or folder / _name(trial, plan)
                problems.append(DataError(f"{what} cannot be written ({error.strerror or error})"))
            except RecbenchError as error:
                problems.append(error)
        if problems:
            raise max(problems, key=lambda problem: problem.exit_code)


def _keep_model(folder: Path, trial: Trial, scorer: Scorer, plan: Plan, split: Split) -> None:
    from recbench.models.save import People, Recommender

    data, (train, _) = plan.dataset, split.stage("test")
    trained = np.arange(train.shape[0]) if split.users is None else split.users
    people = People(data.user_ids.take(pa.array(trained)), train)
    Recommender(
        trial.model.text, scorer, data.item_ids.take(pa.array(split.items)), data.name,
        data.fingerprint, people, trial.id, data.graph,
    ).save(folder / _name(trial, plan))  # fmt: skip


def _keep_lists(folder: Path, trial: Trial, scorer: Scorer, plan: Plan, split: Split) -> None:
    data, (_, held) = plan.dataset, split.stage("test")
    items = data.item_ids.take(pa.array(split.items))
    folder.mkdir(parents=True, exist_ok=True)
    depth = max(metric.depth for metric in plan.metrics)
    (top,) = rank([scorer], held, depth)
    users = data.user_ids.take(pa.array(held.users))
    _write(folder / _name(trial, plan), trial, _table(top, depth, users, items))
    _write_qrels(folder / f"{_file_name(data.name)}.qrels", held, users, items)


NOTHING = Keep()


def _first_there(folder: Path) -> Path:
    """The folder, or the nearest one above it that exists."""
    return next(path for path in (folder, *folder.absolute().parents) if path.exists())


def _name(trial: Trial, plan: Plan) -> str:
    seed = f"-{trial.seed}" if trial.model.stochastic else ""
    return f"{_file_name(plan.dataset.name)}-{_file_name(trial.model.shown)}{seed}"


def _file_name(name: str) -> str:
    """A name as part of that of a file, the same only for the same."""
    return quote(name, safe="+")


def _trial_of(path: Path) -> str | None:
    """The trial that lists are of; None if there are none."""
    try:
        note = (pq.read_schema(path).metadata or {}).get(NOTE, b"{}")
        trial: str | None = json.loads(note).get("trial")
    except (OSError, ValueError, AttributeError, pa.ArrowException):
        return None
    return trial


def _table(top: Top, depth: int, users: pa.Array, items: pa.Array) -> pa.Table:
    """A line for each item of each list."""
    listed = top.items[:, :depth]
    rows, ranks = np.nonzero(listed >= 0)
    return pa.table({
        "user": users.take(pa.array(rows)),
        "rank": pa.array(ranks + 1),
        "item": items.take(pa.array(listed[rows, ranks])),
        "score": pa.array(top.scores[rows, ranks].astype(np.float64)),
    })  # fmt: skip


def _write(stem: Path, trial: Trial, table: pa.Table) -> None:
    lines = (
        f"{user} Q0 {item} {rank} {score!r} {trial.model.name}\n"
        for user, rank, item, score in zip(
            _words(table["user"]), table["rank"].to_pylist(), _words(table["item"]),
            table["score"].to_pylist(), strict=True,
        )
    )  # fmt: skip
    _write_lines(stem.parent / f"{stem.name}.run", lines)
    note = json.dumps({"trial": trial.id, "model": trial.model.text, "seed": trial.seed})
    with atomic_path(stem.parent / f"{stem.name}.parquet") as temporary:
        pq.write_table(table.replace_schema_metadata({NOTE: note}), temporary)


def _write_qrels(path: Path, held: Part, users: pa.Array, items: pa.Array) -> None:
    rows, columns = held.target.nonzero()
    pairs = zip(
        _words(users.take(pa.array(rows))), _words(items.take(pa.array(columns))), strict=True
    )
    _write_lines(path, (f"{user} 0 {item} 1\n" for user, item in pairs))


def _words(ids: pa.Array | pa.ChunkedArray) -> list[str]:
    """Ids without white space, which would end them: it is written as in addresses, %20."""
    return [re.sub(r"\s", lambda mark: quote(mark[0]), str(name)) for name in ids.to_pylist()]


def _write_lines(path: Path, lines: Iterable[str]) -> None:
    with atomic_path(path) as temporary, temporary.open("w", encoding="utf-8") as file:
        file.writelines(lines)
