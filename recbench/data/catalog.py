"""The catalogue: what `datasets.yaml` says about each dataset, read and checked.

A catalogue is a YAML mapping from a dataset's name to its entry. The one that comes with recbench
is joined by the user's own `datasets.yaml` in the working directory, whose entries win. What one of
those says is looked at when it is asked for: it may be wrong, or need a plugin that is not given
now, and that is no concern of the others. The keys of the file are the fields of the dataclasses
below, so their comments are its reference. Top-level keys that start with an underscore hold YAML
anchors and are no datasets.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

import recbench
from recbench.data.plain_yaml import compose, construct
from recbench.data.readers.archive import LIMITS, Limits
from recbench.data.recipe import Filter, Graph, Recipe
from recbench.errors import UsageError, unknown
from recbench.fields import Misfit, build, checked
from recbench.registry import READERS

EMBEDDED = "embedded"
"""In place of a reader: the dataset is in the package, prepared."""
PACKAGE = Path(recbench.__file__).parent
OWN = Path("datasets.yaml")
"""The user's own catalogue, relative to the working directory."""

NAME = re.compile(r"[a-z0-9][a-z0-9.+-]*")
FILE_NAME = re.compile(r"\w[\w .()+-]*")
DIGEST_LENGTHS = {"sha256": 64, "md5": 32, "git_blob": 40}
"""The digests a file can be pinned by, strongest first, and their hexadecimal digits."""


@dataclass(frozen=True)
class RemoteFile:
    """One raw file: where to get it and how to know it."""

    name: str
    urls: tuple[str, ...] = ()
    """Where it can be fetched, in order of preference; http and https only."""
    bytes: int | None = None
    about: int | None = None
    """A rough size, shown before a download where the exact one is not known."""
    sha256: str | None = None
    md5: str | None = None
    git_blob: str | None = None
    """The id git gives the file: SHA-1 of `blob SIZE\\0` and the content."""
    path: Path | None = None
    """A local file instead of urls, relative to the catalogue."""
    expired_certificate: str = ""
    """What is known about a server whose certificate tends to expire."""

    def __post_init__(self) -> None:
        """Refuse what cannot be a file."""
        if not FILE_NAME.fullmatch(self.name):
            raise UsageError(f"'{self.name}' is no plain file name")
        for url in self.urls:
            if not url.startswith(("http://", "https://")):
                raise UsageError(f"'{url}' is neither http nor https")
        for kind, length in DIGEST_LENGTHS.items():
            digest = getattr(self, kind)
            if digest is not None and not re.fullmatch(f"[0-9a-f]{{{length}}}", digest):
                raise UsageError(f"{kind} must be {length} lower-case hexadecimal digits")

    @property
    def pinned(self) -> tuple[str, str] | None:
        """The strongest digest the catalogue knows, with its kind."""
        digests = ((kind, getattr(self, kind)) for kind in DIGEST_LENGTHS)
        return next(((kind, digest) for kind, digest in digests if digest), None)

    @property
    def size(self) -> int:
        """The size, exact or rough; 0 when nothing is known."""
        return self.bytes or self.about or 0


@dataclass(frozen=True)
class Expected:
    """The counts a prepared dataset should have."""

    users: int
    items: int
    interactions: int
    verified: bool = False
    """Whether the counts were computed from this very file; otherwise a mismatch only warns."""
    fingerprints: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Content hashes by part, `train` or `test`, or of `all`."""


@dataclass(frozen=True)
class LicenceTerms:
    """What the publisher asks of those who use the data."""

    text: str = ""
    accept: bool = False
    """The user must agree or log in first: recbench then only takes files fetched by hand."""
    steps: tuple[str, ...] = ()
    """How to get the files by hand."""


def _positive(given: object) -> tuple[str, float]:
    """Read `> 3.5`; `prepare` knows which operators exist."""
    match = re.fullmatch(r"\s*([<>=!]+)\s*(-?\d+(?:\.\d+)?)\s*", str(given))
    if match is None:
        raise UsageError(f"'{given}' is no rule; write an operator and a number, such as '>= 4'")
    return match[1], float(match[2])


@dataclass(frozen=True)
class Entry:
    """One dataset: its files, how to read and prepare them, and what is known about it."""

    name: str
    title: str
    reader: str
    """A name from `recbench list readers`."""
    licence: str
    files: tuple[RemoteFile, ...] = ()
    """What to fetch; nothing for data that comes with recbench."""
    options: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """Options of the reader."""
    positive: tuple[str, float] | None = field(default=None, metadata={"parse": _positive})
    """Which values count as interactions, such as '>= 4'; all of them when absent."""
    dedup: bool = True
    filters: tuple[Filter, ...] = ()
    """Minimal counts, in order: users, items, mode (fixpoint, pass), order (items-first, ...)."""
    graph: Graph | None = None
    """`directed` or `undirected` where users and items are nodes of one graph."""
    split: str = "strong"
    """The split of the tables that use this dataset, as typed after --split."""
    expected: Expected | None = None
    terms: LicenceTerms = LicenceTerms()
    cite: str = ""
    page: str = ""
    limits: Limits = LIMITS
    """What its archives may unpack to before they are taken for bombs."""
    notes: str = ""
    published: tuple[str, ...] = ()
    """Keys of the papers whose tables use this dataset."""
    published_as: str = ""
    """What those tables call it, where that is not its name here."""
    folder: str = ""
    """Where its raw files are kept, where entries share them."""
    other_layouts: tuple[tuple[RemoteFile, ...], ...] = ()
    """Other sets of files the reader takes, when given by hand."""
    revision: int = 1
    """Raised when the same name gives other interactions than before."""

    def __post_init__(self) -> None:
        """Fill in what follows from the name, and refuse what contradicts itself."""
        object.__setattr__(self, "folder", self.folder or self.name)
        object.__setattr__(self, "published_as", self.published_as or self.name)
        for text in (self.name, self.folder):
            if not NAME.fullmatch(text):
                raise UsageError(f"'{text}' must be lower-case letters, digits, dots and hyphens")
        if self.terms.accept and not self.terms.steps:
            raise UsageError("terms.accept needs terms.steps: how to get the files by hand")
        for layout in self.layouts:
            names = {file.name for file in layout}
            if len(names) < len(layout) or any(f"{name}.json" in names for name in names):
                raise UsageError("two files have the same name, or that of another's record")
        for file in self.files:
            if not (file.urls or file.path or self.terms.accept):
                raise UsageError(f"{file.name} has neither urls nor a path")

    @property
    def layouts(self) -> tuple[tuple[RemoteFile, ...], ...]:
        """Every set of files that would do, the preferred one first."""
        return (self.files, *self.other_layouts)

    @property
    def size(self) -> int:
        """Bytes to fetch, as far as known."""
        return sum(file.size for file in self.files)

    def origins(self, file: RemoteFile) -> tuple[str, ...]:
        """Everything that is said of where a file comes from: its digest, addresses, path, steps.

        Files with none of them in common are different files, whatever they are called.
        """
        digest = file.pinned[1:] if file.pinned else ()
        path = (str(file.path.resolve()),) if file.path else ()
        return digest + (path or file.urls or self.terms.steps)

    @property
    def origin(self) -> str:
        """Names where the files come from: entries that are called the same may differ here."""
        files = [
            [file.name, *(file.pinned or self.origins(file))]
            for layout in self.layouts
            for file in layout
        ]
        return hashlib.sha256(json.dumps(files).encode()).hexdigest()[:12]

    @cached_property
    def recipe(self) -> Recipe:
        """How rows become interactions."""
        return Recipe(
            positive=self.positive, dedup=self.dedup, filters=self.filters, graph=self.graph
        )


class Joined(Mapping[str, Entry]):
    """Entries, and over them those of a user's catalogue, each of which is read when asked for."""

    def __init__(self, entries: Mapping[str, Entry], path: Path) -> None:
        self._entries, self._path = entries, path
        self._own, self._read = _document(path), dict[str, Entry]()

    def __getitem__(self, name: str) -> Entry:
        if name not in self._own:
            return self._entries[name]
        if name not in self._read:
            entry = _entry(name, self._own[name], self._path, self._path.parent)
            _check_names(entry, self._path)
            self._read[name] = entry
        return self._read[name]

    def __iter__(self) -> Iterator[str]:
        return iter({**self._entries, **self._own})

    def __len__(self) -> int:
        return len({**self._entries, **self._own})


def load_catalog(extra: Path | None = OWN) -> Mapping[str, Entry]:
    """Read the catalogue of recbench, and the user's own, if there is one, over it.

    None reads no second catalogue. A path other than the default must exist.
    """
    shipped = PACKAGE / "datasets.yaml"
    if not shipped.is_file():  # an editable install: the file stands beside the package folder
        shipped = PACKAGE.parent / "datasets.yaml"
    entries = read_catalog(shipped, PACKAGE)
    if extra is None or (extra == OWN and not extra.is_file()):
        return entries
    if not extra.is_file():
        raise UsageError(f"there is no catalogue {extra}")
    if extra.samefile(shipped) or extra.read_bytes() == shipped.read_bytes():
        return entries  # in a working copy of recbench
    return Joined(entries, extra)


def read_catalog(path: Path, folder: Path) -> dict[str, Entry]:
    """Read one catalogue; relative paths in it start from `folder`."""
    return {name: _entry(name, given, path, folder) for name, given in _document(path).items()}


def _document(path: Path) -> dict[str, Any]:
    """What a file says of each dataset, not yet looked at."""
    try:
        node = compose(path)
        if node is None:
            return {}
        _refuse_duplicates(node)
        given = checked(dict[str, Any], construct(node))
    except Misfit as error:
        raise UsageError(f"{path}: {error}") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    except yaml.YAMLError as error:
        raise UsageError(f"{path} is not YAML that may be read here: {error}") from error
    return {name: value for name, value in given.items() if not name.startswith("_")}


def _entry(name: str, given: object, path: Path, folder: Path) -> Entry:
    """What a catalogue says of one dataset."""
    try:
        entry = build(Entry, given, name=name)
    except Misfit as error:
        raise UsageError(f"{path}: {error.inside(name)}") from None
    if not any(file.path for layout in entry.layouts for file in layout):
        return entry
    files, *others = (tuple(_placed(file, folder) for file in layout) for layout in entry.layouts)
    return replace(entry, files=files, other_layouts=tuple(others))


def _placed(file: RemoteFile, folder: Path) -> RemoteFile:
    return replace(file, path=folder / file.path) if file.path else file


def _check_names(entry: Entry, path: Path) -> None:
    """Look up what a user's entry names; the tests do so for the entries of recbench."""
    if entry.reader != EMBEDDED and entry.reader not in READERS.names():
        error = unknown("reader", entry.reader, READERS.names())
        raise UsageError(f"{path}: {entry.name}.reader: {error}")
    try:
        entry.recipe  # noqa: B018 - building it checks it
    except UsageError as error:
        raise UsageError(f"{path}: {entry.name}: {error}") from None


def _refuse_duplicates(node: yaml.Node) -> None:
    """Refuse a key given twice: YAML would silently drop the first."""
    if isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            _refuse_duplicates_in(item, index)
    if not isinstance(node, yaml.MappingNode):
        return
    seen: set[object] = set()
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise Misfit(f"a key on line {key.start_mark.line + 1} is not a word")
        here = str(key.value)
        if here in seen and here != "<<":
            raise Misfit(f"given a second time on line {key.start_mark.line + 1}", here)
        seen.add(here)
        _refuse_duplicates_in(value, here)


def _refuse_duplicates_in(node: yaml.Node, key: str | int) -> None:
    try:
        _refuse_duplicates(node)
    except Misfit as error:
        raise error.inside(key) from None
