"""Lists of recommendations as tables: for users of the data, or for histories from anywhere."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from recbench.errors import DataError, UsageError
from recbench.files import atomic_path
from recbench.linalg.types import Progress, silent
from recbench.models.save import Id, Recommender

Histories = Mapping[str, Sequence[Id]]
"""What people have, by what they are called."""


def typed(words: Iterable[str], ids: pa.Array) -> list[Id]:
    """Ids as somebody typed them, as the data have them: numbers or text."""
    if not pa.types.is_integer(ids.type):
        return list(words)
    try:
        return [int(word) for word in words]
    except ValueError as error:
        raise UsageError(f"ids of these data are whole numbers ({error})") from error


def lists(
    model: Recommender,
    *,
    users: Sequence[Id] | None = None,
    histories: Histories | None = None,
    k: int = 10,
    names: Mapping[str, str] | None = None,
    progress: Progress = silent,
) -> pd.DataFrame:
    """The k best items, a line each: of histories if there are any, else of users, or all users."""
    whom: Sequence[object]
    if histories is not None:
        whom, found = list(histories), model.for_histories(histories.values(), k, progress)
    else:
        everybody = [] if model.people is None else model.people.ids.to_pylist()
        whom, found = everybody if users is None else users, model.for_users(users, k, progress)
    rows = [
        (user, rank, item, score)
        for user, best in zip(whom, found, strict=True)
        for rank, (item, score) in enumerate(best, 1)
    ]
    frame = pd.DataFrame(rows, columns=["user", "rank", "item", "score"])
    if names is not None:
        frame.insert(3, "name", [names.get(str(item), "") for item in frame["item"]])
    return frame


def known(histories: Histories, model: Recommender) -> tuple[Histories, int]:
    """The same with nothing but items that the model has, and how many others there were."""
    items = set(model.items.to_pylist())
    kept = {who: [item for item in have if item in items] for who, have in histories.items()}
    return kept, sum(map(len, histories.values())) - sum(map(len, kept.values()))


def read_histories(path: Path, user: str, item: str, items: pa.Array) -> Histories:
    """What people have, from a csv or parquet file with a line for each interaction."""
    frame = _read(path)
    for column in (user, item):
        if column not in frame:
            raise DataError(
                f"{path} has no column '{column}' among {', '.join(map(str, frame.columns))}"
            )
    frame = frame[[user, item]].dropna()
    groups = frame.groupby(user, sort=False)[item]
    return {str(who): typed(map(str, have), items) for who, have in groups}


def read_names(path: Path) -> Mapping[str, str]:
    """Names of items, from a csv or parquet file: the first column are ids, the second names."""
    frame = _read(path)
    if frame.shape[1] < 2:
        raise DataError(f"{path} has one column; names need two: the items' ids, and their names")
    return dict(zip(frame.iloc[:, 0].astype(str), frame.iloc[:, 1].astype(str), strict=True))


def read_users(path: Path, ids: pa.Array) -> list[Id]:
    """Users, one on each line of a file."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read as text ({error})") from error
    return typed([line.strip() for line in lines if line.strip()], ids)


def _read(path: Path) -> pd.DataFrame:
    try:
        if path.suffix == ".parquet":
            return pd.read_parquet(path)
        return pd.read_csv(path, dtype=str, keep_default_na=False, sep=None, engine="python")
    except (OSError, ValueError, pa.ArrowException, pd.errors.ParserError) as error:
        raise DataError(f"{path} cannot be read as csv or parquet ({error})") from error


def _json_lines(frame: pd.DataFrame, path: Path) -> None:
    frame.to_json(path, orient="records", lines=True, force_ascii=False)


FORMS: Mapping[str, Callable[[pd.DataFrame, Path], None]] = {
    ".csv": lambda frame, path: frame.to_csv(path, index=False),
    ".json": lambda frame, path: frame.to_json(path, orient="records", force_ascii=False),
    ".jsonl": _json_lines,
    ".parquet": lambda frame, path: frame.to_parquet(path, index=False),
}
"""How a table is written, by the end of the file's name."""


def write(frame: pd.DataFrame, path: Path) -> None:
    """Write a table whole or not at all, as the end of its name says."""
    check_form(path)
    numbers = frame.select_dtypes(np.floating).columns
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_path(path) as temporary:
        FORMS[path.suffix](frame.astype(dict.fromkeys(numbers, np.float64)), temporary)


def check_form(path: Path) -> None:
    """Refuse a name that does not say how to write, before there is anything to write."""
    if path.suffix not in FORMS:
        raise UsageError(f"{path}: the name must end in {', '.join(FORMS)}")
