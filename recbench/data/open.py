"""A name as typed to a prepared Dataset: embedded, synthetic, catalogued, or your own file."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from recbench.brackets import taken_apart
from recbench.data.catalog import EMBEDDED, Entry, load_catalog
from recbench.data.clean import prepare
from recbench.data.dataset import WHOLE, Dataset, load_embedded
from recbench.data.fetch.cache import digest_file
from recbench.data.interactions import Interactions
from recbench.data.readers.archive import Limits
from recbench.data.recipe import Filter, Graph, Recipe
from recbench.errors import DataError, UsageError, check_takes, of_kind, unknown
from recbench.files import home_folder, readable
from recbench.linalg.steps import STEPS
from recbench.registry import READERS

SYNTHETIC = "synthetic"
SUFFIXES = {".parquet": "parquet", ".jsonl": "jsonl", ".ndjson": "jsonl"}
"""Readers of a user's own file by the end of its name; anything else is delimited text."""

MARK = 8
"""Digits of the content in the name of a user's own file."""

WITH_COLUMNS = ("delimited", "jsonl", "parquet")
"""Readers of files whose columns are named; others know where things are."""


@dataclass
class Access:
    """Where datasets are kept and how they may be got."""

    home: Path = field(default_factory=home_folder)
    fetching: Mapping[str, Any] = field(default_factory=dict)
    """Options of `fetch`: source, mirror, offline, insecure, progress."""
    accept_counts: bool = False
    """Go on, on the record, with a dataset whose counts are not the published ones."""
    announce: Callable[[str], None] = lambda text: None


def open_dataset(name: str, access: Access) -> Dataset:
    """Return a dataset ready to split, preparing it first if that was not done before."""
    if name.partition(":")[0] == SYNTHETIC:
        from recbench.data.synthetic import generate, parse

        return generate(parse(name, sizes_of))
    entry = entry_of(name)
    if entry.reader == EMBEDDED:
        return load_embedded(name)
    for path in prepared_paths(entry, access.home):
        if path.exists():
            dataset = Dataset.load(path)
            changed = changes(entry, dataset)
            if not changed:
                return dataset
            if path == prepared_path(entry, access.home):
                access.announce(f"{name}: {changed} since it was prepared; preparing it again")
    return prepare_entry(entry, access)


def at_hand(name: str, announce: Callable[[str], None] = lambda text: None) -> Dataset | None:
    """A dataset that needs no download; None for others, and for names that nobody knows."""
    access = Access(announce=announce)
    if name.partition(":")[0] == SYNTHETIC:
        return open_dataset(name, access)
    try:
        state = state_of(entry_of(name), access.home)
    except UsageError:
        return None
    return open_dataset(name, access) if state in ("embedded", "ready") else None


def described(entry: Entry) -> dict[str, str]:
    """What the catalogue says of an entry that decides, or vouches for, its interactions."""
    return {
        "reader": f"{entry.reader} {json.dumps(dict(entry.options), sort_keys=True, default=str)}",
        "reader's revision": str(revision_of(entry.reader)),
        "recipe": entry.recipe.text,
        "files": ", ".join(f"{file.name} {file.pinned}" for file in entry.files),
        "expected counts": str(entry.expected),
    }


def own_files(entry: Entry) -> dict[str, str]:
    """The SHA-256 of the user's own files among those of an entry: nothing else vouches for them.

    A file that is gone cannot contradict what was prepared from it.
    """
    return {
        file.name: digest_file(file.path, ["sha256"])["sha256"]
        for file in entry.files
        if file.path is not None and file.path.exists()
    }


def changes(entry: Entry, dataset: Dataset) -> str:
    """What is no longer as it was when a dataset was prepared; empty if nothing is."""
    provenance = dataset.provenance
    before = {"recipe": provenance.get("recipe")} | provenance.get("described", {})
    now = described(entry) | own_files(entry)
    before |= provenance.get("content", {})
    differences = [key for key in now if before.get(key, now[key]) != now[key]]
    return f"its {' and '.join(differences)} changed" if differences else ""


def default_split(source: "Source") -> str:
    """The split a dataset is used with unless the user says otherwise."""
    if not isinstance(source, str) or source.partition(":")[0] == SYNTHETIC:
        return "strong"
    return entry_of(source).split


def entry_of(name: str) -> Entry:
    """Look a name up in the catalogue."""
    catalog = load_catalog()
    if name not in catalog:
        raise unknown("dataset", name, [*catalog, f"{SYNTHETIC}:users=…"])
    return catalog[name]


def sizes_of(name: str) -> dict[str, int]:
    """How many users, items and interactions a dataset of the catalogue has once it is prepared."""
    expected = entry_of(name).expected
    if expected is None:
        raise UsageError(f"the catalogue does not know how large {name} is; give users=…,items=…")
    return {k: getattr(expected, k) for k in ("users", "items", "interactions")}


def revision_of(reader: str) -> int:
    """A reader's `revision`, which is raised when it reads other rows than before; at first 1."""
    return getattr(READERS.get(reader), "revision", 1)


def prepared_path(entry: Entry, home: Path) -> Path:
    """Where the prepared Parquet of an entry is kept; a new revision is a new file.

    The name of an entry is no one's alone. Its folder is named after where the raw files come from,
    so that another project's dataset of that name is another file.
    """
    return home / "prepared" / entry.origin / f"{entry.name}-{entry.revision}.parquet"


def prepared_paths(entry: Entry, home: Path) -> list[Path]:
    """Where the prepared Parquet of an entry may be.

    Versions before kept it under its name alone. Only pinned digests tell whether that is it.
    """
    former = home / "prepared" / f"{entry.name}-{entry.revision}.parquet"
    pinned = all(file.pinned and file.path is None for file in entry.files)
    return [prepared_path(entry, home)] + ([former] if pinned else [])


def state_of(entry: Entry, home: Path) -> str:
    """'embedded', 'ready', or how a dataset can be had."""
    if entry.reader == EMBEDDED:
        return "embedded"
    if any(path.exists() for path in prepared_paths(entry, home)):
        return "ready"
    return "by hand" if entry.terms.accept else "to fetch"


def prepare_entry(entry: Entry, access: Access) -> Dataset:
    """Fetch, read, prepare, check and keep a dataset of the catalogue."""
    from recbench.data.fetch.raw import OtherBytes

    try:
        paths = raw_files(entry, access)
    except OtherBytes as error:
        dataset = _by_content(entry, access, error)
    else:
        dataset = check_counts(entry, _prepared(entry, paths), access)
    path = prepared_path(entry, access.home)
    try:
        dataset.save(path)
    except OSError as error:
        raise DataError(
            f"{entry.name} is prepared, but cannot be kept at {path} ({error.strerror or error}); "
            "make room, or point RECBENCH_HOME to another disk"
        ) from error
    return dataset


def _prepared(entry: Entry, paths: Sequence[Path]) -> Dataset:
    content = own_files(entry)  # before they are read: what changes meanwhile counts as changed
    return prepare(
        read_entry(entry, paths),
        entry.recipe,
        entry.name,
        {
            "split": entry.split,
            "reader": entry.reader,
            "files": [path.name for path in paths],
            "revision": entry.revision,
            "described": described(entry),
            "content": content,
        },
    )


def _by_content(entry: Entry, access: Access, error: DataError) -> Dataset:
    """A dataset of files fetched by hand that differ from the published ones in nothing but bytes.

    Its interactions must be proven the published ones, by fingerprints of all of them.
    """
    from recbench.data.fetch.raw import offered

    paths = offered(entry, access.home, access.fetching["source"])
    try:
        dataset = _prepared(entry, paths)
    except DataError:
        raise error from None
    known = entry.expected.fingerprints if entry.expected else {}
    if not (WHOLE in known or dataset.part_names <= known.keys()):
        raise error
    if problem := _mismatch(entry, dataset):
        raise DataError(f"{error}; nor is it so by content: {problem}") from error
    access.announce(
        f"{error}\n{entry.name}: its interactions are the published ones, by their fingerprint "
        f"({dataset.fingerprint[:12]}): taken as they are"
    )
    taken = {"by content": [path.name for path in paths]}
    return replace(dataset, provenance={**dataset.provenance, **taken})


def raw_files(entry: Entry, access: Access) -> tuple[Path, ...]:
    """The raw files of an entry, fetched if need be, after saying what its publisher asks."""
    from recbench.data.fetch.raw import fetch  # brings the network, which most runs do not need

    if entry.terms.text:
        access.announce(f"{entry.name}: {entry.terms.text}")
    paths = fetch(entry, access.home, **access.fetching)
    access.announce(f"reading {entry.name}")
    return paths


def read_raw(entry: Entry, access: Access) -> Interactions:
    """The rows of an entry as they stand in its raw files."""
    if entry.reader == EMBEDDED:
        raise UsageError(
            f"{entry.name} comes prepared; there are no raw files to search in; "
            "take one of `recbench list datasets` that is fetched"
        )
    return read_entry(entry, raw_files(entry, access))


def read_entry(entry: Entry, paths: Sequence[Path]) -> Interactions:
    """Read the raw files of an entry."""
    limits = Limits(max_bytes=entry.limits.max_bytes, max_ratio=entry.limits.max_ratio)
    return read_with(entry.reader, paths, entry.options, limits)


def read_with(
    name: str, paths: Sequence[Path], options: Mapping[str, Any], limits: Limits
) -> Interactions:
    """Read files by the reader of some name, and see that it gives interactions."""
    read = READERS.get(name)
    check_takes(
        read, (paths, options, limits), f"the reader {name}", "read(paths, options, limits)"
    )
    instead = "return TableBuilder().finish(...), or Interactions(table)"
    rows = read(paths, options, limits)
    return of_kind(rows, Interactions, read, f"the reader {name}", instead)


def check_counts(entry: Entry, dataset: Dataset, access: Access) -> Dataset:
    """Compare counts and content with what the catalogue expects.

    What was verified must match, or be accepted on the record; what was only recalled or
    inferred gives a warning.
    """
    problem = _mismatch(entry, dataset)
    if not problem:
        return dataset
    verified = entry.expected is not None and entry.expected.verified
    if verified and not access.accept_counts:
        raise DataError(
            f"{problem}; the raw file or its preparation is not what the tables used "
            f"(`recbench fetch {entry.name} --accept-counts` goes on and records the deviation)"
        )
    doubt = "" if verified else " (expected counts are unverified)"
    access.announce(f"warning: {problem}{doubt}")
    return replace(dataset, provenance={**dataset.provenance, "deviation": problem})


def _mismatch(entry: Entry, dataset: Dataset) -> str:
    expected = entry.expected
    if expected is None:
        return ""
    counts = (dataset.n_users, dataset.n_items, len(dataset))
    wanted = (expected.users, expected.items, expected.interactions)
    if counts != wanted:
        return f"{entry.name} has {_counts(counts)}, expected {_counts(wanted)}"
    for part, digest in expected.fingerprints.items():
        if dataset.part_fingerprint(part) != digest:
            return f"the {part} interactions of {entry.name} are not the published ones"
    return ""


def _counts(counts: tuple[int, int, int]) -> str:
    users, items, interactions = counts
    return f"{users:,} users x {items:,} items x {interactions:,} interactions"


@dataclass(frozen=True)
class OwnFile:
    """A user's own file and what its columns mean."""

    path: Path
    user: str = "user"
    item: str = "item"
    value: str | None = None
    time: str | None = None
    minimum: float | None = None
    core: int = 0
    reader: str | None = None
    """As in `delimited[encoding=latin-1]`; None: by the end of the file's name."""
    graph: Graph | None = None

    def __post_init__(self) -> None:
        """Refuse a threshold on nothing, and values that nothing is asked of."""
        if self.minimum is not None and self.value is None:
            raise UsageError("--min needs --value COLUMN, the column it applies to")
        if self.value is not None and self.minimum is None:
            raise UsageError(
                f"--value {self.value} needs --min NUMBER, from which on a row counts; where every "
                "row counts leave --value out"
            )


def open_file(own: OwnFile) -> Dataset:
    """Read and prepare a user's own file; nothing is kept.

    It is called after the file and its content: files of one name, or one file prepared in two
    ways, never share a folder, a column of a table or a saved model.
    """
    if not own.path.is_file():
        what = "is a folder" if own.path.is_dir() else "there is no such file"
        what += "; give a csv, tsv, jsonl or parquet file, as in --data orders.csv"
        raise DataError(f"{own.path}: {what}")
    named = {"user": own.user, "item": own.item, "value": own.value, "time": own.time}
    columns = {role: column for role, column in named.items() if column is not None}
    text = own.reader or SUFFIXES.get(own.path.suffix.lower(), "delimited")
    name, settings = taken_apart(text)
    options: dict[str, object] = {**settings}
    if name in WITH_COLUMNS:
        options["columns"] = columns
    try:
        interactions = read_with(name, [own.path], options, Limits())
    except DataError as error:
        for role, column in columns.items():
            if f"has no column '{column}'" in str(error):
                flags = "--user and --item" if role in ("user", "item") else f"--{role}"
                raise DataError(f"{error}; name yours with {flags}") from error
        if "; pass " not in str(error):
            raise
        raise DataError(f"{error} (in brackets: --reader '{name}[...]')") from error
    positive = None if own.minimum is None else (">=", own.minimum)
    filters = (Filter(users=own.core, items=own.core),) if own.core else ()
    recipe = Recipe(positive=positive, filters=filters, graph=own.graph)
    name, stem = readable(own.path.name), readable(own.path.stem)
    dataset = prepare(interactions, recipe, stem, {"file": name, "columns": columns})
    del interactions  # the rows as read weigh more than what comes next
    return dataset.renamed(f"{stem}-{dataset.fingerprint[:MARK]}")


Source = str | Path | OwnFile | Dataset
"""A dataset by its name, as the user's own file, or in memory."""


def open_source(source: Source, access: Access) -> Dataset:
    """Return the dataset behind whatever stands for one."""
    with STEPS("read"):
        return _opened(source, access)


def _opened(source: Source, access: Access) -> Dataset:
    if isinstance(source, Dataset):
        return source
    if isinstance(source, str):
        return open_dataset(source, access)
    own = source if isinstance(source, OwnFile) else OwnFile(source)
    dataset = open_file(own)
    access.announce(f"{own.path}: {dataset.shape_text}; called {dataset.name}")
    return dataset
