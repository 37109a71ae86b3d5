"""Raw files of a dataset: found in the cache, taken from the user, or downloaded.

`fetch` returns paths of whole, verified files or raises a DataError that says what to do. The
network itself is in `http`, what lies on disk in `cache`.
"""

import contextlib
import errno
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from recbench.data.catalog import Entry, RemoteFile
from recbench.data.fetch.cache import (
    BLOCK,
    Place,
    digest_file,
    is_page,
    kinds_for,
    mismatch,
    no_room,
)
from recbench.data.fetch.http import Policy, Transfer, Unreachable
from recbench.errors import DataError, UsageError, printable
from recbench.files import readable
from recbench.linalg.types import Note, quiet

Layout = tuple[RemoteFile, ...]
PATIENT = Policy()
LONGEST = 400
"""Characters of the reason why an address failed."""


class OtherBytes(DataError):
    """A file fetched by hand is not the published one, byte for byte."""


@dataclass(frozen=True)
class _Options:
    """How files may be got."""

    mirror: str | None
    offline: bool
    insecure: bool
    progress: Note
    policy: Policy


@dataclass(frozen=True)
class Planned:
    """What fetching one file would do."""

    name: str
    path: Path
    here: bool
    """Whether the file is in place; its digest is not looked at."""
    held: int
    """Bytes of it fetched earlier."""
    size: int
    """Its size as far as known, else 0."""
    urls: tuple[str, ...]


def raw_folder(entry: Entry, home: Path) -> Path:
    """Where the raw files of an entry are kept.

    If another catalogue's files of these names are there already, it is a folder beside them.
    """
    folder = home / "raw" / entry.folder
    places = [_place(entry, file, folder) for layout in entry.layouts for file in layout]
    foreign = any(place.foreign for place in places)
    return folder.with_name(f"{folder.name}-{entry.origin}") if foreign else folder


def _place(entry: Entry, file: RemoteFile, folder: Path) -> Place:
    return Place(folder, file.name, entry.origins(file))


def fetch(
    entry: Entry,
    home: Path,
    *,
    source: Path | None = None,
    mirror: str | None = None,
    offline: bool = False,
    insecure: bool = False,
    progress: Note = quiet,
    policy: Policy = PATIENT,
) -> tuple[Path, ...]:
    """Return the raw files of a dataset, getting those that are not there yet.

    `source` is a file or folder fetched by hand; nothing else is fetched then. `mirror` is an
    address tried first, which holds `DATASET/FILE` (default: $RECBENCH_MIRROR). `offline`, also
    when $RECBENCH_OFFLINE is set, uses no network. `insecure` ignores certificates where a
    digest is pinned.
    """
    folder = raw_folder(entry, home)
    if source is not None:
        _take(entry, folder, source)
    closed = offline or source is not None or _says_yes("RECBENCH_OFFLINE")
    options = _Options(_mirror(mirror), closed, insecure, progress, policy)
    return tuple(_get(entry, file, folder, options) for file in _layout(entry, folder))


def plan(entry: Entry, home: Path, *, mirror: str | None = None) -> tuple[Planned, ...]:
    """Say what `fetch` would do, without doing it."""
    folder = raw_folder(entry, home)
    return tuple(
        _planned(entry, file, _place(entry, file, folder), _mirror(mirror))
        for file in _layout(entry, folder)
    )


def _planned(entry: Entry, file: RemoteFile, place: Place, mirror: str | None) -> Planned:
    path = file.path or place.target
    held = place.partial.stat().st_size if place.partial.exists() else 0
    urls = _addresses(entry, file, mirror)
    return Planned(file.name, path, path.exists(), held, file.size, urls)


def _addresses(entry: Entry, file: RemoteFile, mirror: str | None) -> tuple[str, ...]:
    """Where to look for a file, in order."""
    if entry.terms.accept:
        return ()
    first = (f"{mirror.rstrip('/')}/{entry.folder}/{quote(file.name)}",) if mirror else ()
    return first + file.urls


def _mirror(given: str | None) -> str | None:
    mirror = given or os.environ.get("RECBENCH_MIRROR")
    if mirror and not mirror.startswith(("http://", "https://")):
        raise UsageError(
            f"the mirror must be an http or https address, not '{mirror}'; write for example "
            "https://example.org/data"
        )
    return mirror


def _says_yes(variable: str) -> bool:
    return os.environ.get(variable, "").lower() not in ("", "0", "no", "false", "off")


def _layout(entry: Entry, folder: Path) -> Layout:
    """The set of files that is in place, else the preferred one."""
    there = (all((folder / file.name).exists() for file in layout) for layout in entry.layouts)
    return next(
        (layout for layout, yes in zip(entry.layouts, there, strict=True) if yes), entry.files
    )


def _get(entry: Entry, file: RemoteFile, folder: Path, options: _Options) -> Path:
    """Return one file, whole and verified."""
    if file.path:
        return _local(file, file.path)
    place = _place(entry, file, folder)
    if place.holds(file):
        return place.target
    if entry.terms.accept:
        raise _by_hand(entry, file)
    if options.offline:
        raise _missing(entry, place, options.mirror)
    if options.insecure and not file.pinned:
        raise UsageError(
            f"--insecure needs a digest to verify {file.name} by, and the catalogue has none; "
            f"fetch it by hand and type: recbench fetch {entry.name} --from FILE"
        )
    with _writing(place), place.lock():
        if not place.holds(file):  # another process may have fetched it meanwhile
            _download(entry, file, place, options)
    return place.target


def _local(file: RemoteFile, path: Path) -> Path:
    """Return a file that the catalogue points at, where it lies."""
    if not path.is_file():
        raise DataError(f"{path} does not exist; the catalogue says it holds {file.name}")
    digests = digest_file(path, kinds_for(file)) if file.pinned else {}
    wrong = mismatch(file, path.stat().st_size, digests, None)
    if wrong:
        raise DataError(f"{path} is not the file the catalogue describes: {wrong}")
    return path


def _download(entry: Entry, file: RemoteFile, place: Place, options: _Options) -> None:
    """Fetch one file over the network."""
    transfer = Transfer(file, place, options.policy, options.insecure, options.progress)
    try:
        transfer.run(_addresses(entry, file, options.mirror))
    except Unreachable as failure:
        if failure.nobody:
            raise _no_network(entry, place, options.mirror, failure) from failure
        raise _unreachable(entry, file, place, failure) from failure


@contextlib.contextmanager
def _writing(place: Place) -> Iterator[None]:
    """Turn what a disk can refuse into a sentence."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise no_room(place, "the disk filled up") from error
        raise DataError(f"cannot write {place.name} to {place.folder}: {error}") from error


def offered(entry: Entry, home: Path, source: Path) -> tuple[Path, ...]:
    """The files that a source has of a dataset, where they lie; what it lacks is in its place."""
    folder = raw_folder(entry, home)
    paths = _offered(entry, folder, source)
    layout = next(files for files in entry.layouts if {*paths} <= {file.name for file in files})
    return tuple(paths.get(file.name, folder / file.name) for file in layout)


def _take(entry: Entry, folder: Path, source: Path) -> None:
    """Take over files fetched by hand."""
    if not source.exists():
        raise DataError(
            f"--from {source}: there is no such file or folder; give where you have "
            f"{_wanted(entry)}"
        )
    paths = _offered(entry, folder, source)
    files = {file.name: file for layout in entry.layouts for file in layout}
    for name, path in paths.items():
        place = _place(entry, files[name], folder)
        with _writing(place), place.lock():
            _adopt(entry, files[name], place, path)


def _offered(entry: Entry, folder: Path, source: Path) -> Mapping[str, Path]:
    """The files that a source has of the first layout it completes, by name.

    Beside a file of some name are the others.
    """
    for layout in entry.layouts:
        paths = {file.name: path for file in layout if (path := _find(entry, file, source))}
        if source.is_file() and source not in paths.values():
            continue
        if paths and all(file.name in paths or (folder / file.name).exists() for file in layout):
            return paths
    if source.is_file():  # a browser may have renamed it; what it is, the digest says
        for layout in entry.layouts:
            if len(layout) == 1 and Path(layout[0].name).suffix == source.suffix:
                return {layout[0].name: source}
    raise DataError(
        f"--from {source}: {entry.name} needs {_wanted(entry)}, not found there; "
        "give one of them, or their folder"
    )


def _wanted(entry: Entry) -> str:
    """The files that a dataset needs."""
    layouts = [", ".join(file.name for file in layout) for layout in entry.layouts]
    return " or ".join(layouts) or "no files"


def _find(entry: Entry, file: RemoteFile, source: Path) -> Path | None:
    folder = source.parent if source.is_file() else source
    candidates = [folder / file.name]
    candidates += [folder / entry.folder / file.name] if source.is_dir() else []
    return next((path for path in candidates if path.is_file()), None)


def _adopt(entry: Entry, file: RemoteFile, place: Place, path: Path) -> None:
    """Verify a file fetched by hand and put it in its place, without a copy where possible."""
    if place.target.exists() and path.samefile(place.target):
        return
    place.copy.unlink(missing_ok=True)
    try:
        os.link(path.resolve(), place.copy)
    except OSError:  # another file system, or one without links
        _copy(path, place.copy)
    digests = digest_file(place.copy, kinds_for(file))
    wrong = mismatch(file, place.copy.stat().st_size, digests, place.record())
    wrong = wrong or ("it is a web page" if is_page(file, place.copy) else None)
    if wrong:
        place.copy.unlink()
        kind = OtherBytes if file.pinned else DataError
        raise kind(f"{path} is not {file.name} of {entry.name}: {wrong}{_forget(file, place)}")
    place.install(place.copy, file, digests, readable(str(path.resolve())))


def _copy(path: Path, target: Path) -> None:
    """Copy a file to disk, or not at all: half a copy must not fill a disk that is full."""
    try:
        with path.open("rb") as source, target.open("wb") as copy:
            shutil.copyfileobj(source, copy, BLOCK)
            copy.flush()
            os.fsync(copy.fileno())
    except OSError:
        target.unlink(missing_ok=True)
        raise


def _by_hand(entry: Entry, file: RemoteFile) -> DataError:
    """Build the error for data whose terms its user must accept."""
    steps = "\n".join(f"  {number}. {step}" for number, step in enumerate(entry.terms.steps, 1))
    return DataError(
        f"{entry.name} must be fetched by hand: {entry.terms.text}\n{steps}\n"
        f"then type: recbench fetch {entry.name} --from {file.name}"
    )


def _missing(entry: Entry, place: Place, mirror: str | None) -> DataError:
    what = "is damaged" if place.target.exists() else "is not here"
    return DataError(
        f"{place.target} {what}, and no network may be used; with a network type: "
        f"recbench fetch {entry.name}; without:\n{_elsewhere(entry, place, mirror)}"
    )


def _no_network(entry: Entry, place: Place, mirror: str | None, failure: Unreachable) -> DataError:
    """Build the error for a machine from which no address can be reached at all."""
    reasons = "; ".join(dict.fromkeys(reason for _, reason in failure.reasons))
    return DataError(
        f"{entry.name} cannot be fetched: there is no network here, or none that leads to it "
        f"({printable(reasons[:LONGEST])})\n{_elsewhere(entry, place, mirror)}"
    )


def _elsewhere(entry: Entry, place: Place, mirror: str | None) -> str:
    """How to get the files that are not here where there is a network, and what to do then."""
    wanted = [file for file in entry.files if file.urls]
    gone = [file for file in wanted if not (place.folder / file.name).exists()]
    files = gone or [file for file in wanted if file.name == place.name]
    lines = ["on another machine get"]
    for file in files:
        first, *others = _addresses(entry, file, mirror)
        lines += [f"  {file.name} from {first}", *(f"    or {url}" for url in others)]
    where = "it" if len(files) == 1 else "them, in one folder,"
    lines.append(f"bring {where} here and type: recbench fetch {entry.name} --from {files[0].name}")
    return "\n".join(lines)


def _unreachable(entry: Entry, file: RemoteFile, place: Place, failure: Unreachable) -> DataError:
    """Build the error that names every address tried and why it failed."""
    lines = [f"{file.name} of {entry.name} could not be fetched:"]
    lines += [f"  {url}: {printable(reason[:LONGEST])}" for url, reason in failure.reasons]
    if any("CERTIFICATE" in reason for _, reason in failure.reasons):
        note = f"{file.expired_certificate}; " if file.expired_certificate else ""
        way = "a digest is pinned, so --insecure is safe" if file.pinned else "no digest is pinned"
        lines.append(f"  about the certificate: {note}{way}")
    lines.append(f"get the file by hand and type: recbench fetch {entry.name} --from FILE")
    return DataError("\n".join(lines) + _forget(file, place))


def _forget(file: RemoteFile, place: Place) -> str:
    """How to accept a file that changed at its source, where only our own record forbids it."""
    if file.pinned or place.record() is None:
        return ""
    return f"; if the publisher changed the file on purpose, delete {place.record_path} first"
