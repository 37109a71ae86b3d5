"""Raw files as they lie on disk: their digests, their records, and the names around them.

Beside a file `NAME` stands `NAME.json`, the record of its size, its digests and where it came
from. Hidden neighbours are unfinished business: `.NAME.part` holds the bytes fetched so far,
`.NAME.part.json` which version they belong to, `.NAME.copy` a file being taken over, `.NAME.new`
a record being written, and `.NAME.lock` keeps two processes apart. `NAME` itself only ever
appears whole and verified.
"""

import contextlib
import hashlib
import json
import logging
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from filelock import FileLock, Timeout

from recbench.data.catalog import RemoteFile
from recbench.errors import DataError, printable
from recbench.fields import Misfit, checked, parsed

T = TypeVar("T")
LOG = logging.getLogger("recbench.fetch")
LABELS = {"sha256": "SHA-256", "md5": "MD5", "git_blob": "git blob id"}
BLOCK = 1 << 20
PAGES = (b"<!doctype html", b"<html", b"<head", b"<!--")
"""How web pages begin."""


def hashes(kinds: Iterable[str], size: int) -> dict[str, Any]:
    """Start hash objects; git's also covers the size, so that must be known."""
    make: dict[str, Callable[[], Any]] = {
        "sha256": hashlib.sha256,
        "md5": lambda: hashlib.md5(usedforsecurity=False),
        "git_blob": lambda: hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False),
    }
    return {kind: make[kind]() for kind in kinds}


def kinds_for(file: RemoteFile) -> set[str]:
    """The digests to compute: the one to verify, and SHA-256 for the record."""
    return {"sha256", *(file.pinned or ())[:1]}


def digest_file(path: Path, kinds: Iterable[str]) -> dict[str, str]:
    """Hash a file."""
    with path.open("rb", buffering=0) as stream:
        running = hashes(kinds, os.fstat(stream.fileno()).st_size)
        while block := stream.read(BLOCK):
            for one in running.values():
                one.update(block)
    return {kind: one.hexdigest() for kind, one in running.items()}


def is_page(file: RemoteFile, path: Path) -> bool:
    """Whether a file is a web page, such as a form to log in, where nothing else can tell."""
    if file.pinned or file.name.lower().endswith((".html", ".htm")):
        return False
    with path.open("rb") as stream:
        head = stream.read(1024)
    return head.removeprefix(b"\xef\xbb\xbf").lstrip().lower().startswith(PAGES)


@dataclass(frozen=True)
class Record:
    """What is known of a file that was fetched."""

    bytes: int
    digests: Mapping[str, str]
    source: str
    fetched: str
    """When, in UTC."""
    mtime_ns: int
    origins: Sequence[str] = ()
    """Where the catalogue said that the file comes from; versions before did not note it."""


def mismatch(
    file: RemoteFile, size: int, digests: Mapping[str, str], record: Record | None
) -> str | None:
    """Say what is wrong with a file, by the strongest evidence there is; None if nothing is.

    Where the catalogue pins no digest, the one recorded on first use must match.
    """
    if file.bytes is not None and size != file.bytes:
        return f"it is {size:,} bytes long, {file.bytes:,} are expected"
    if file.pinned:
        kind, wanted = file.pinned
        if digests[kind] != wanted:
            return f"its {LABELS[kind]} is {digests[kind]}, {wanted} is expected"
    elif record and digests["sha256"] != record.digests.get("sha256"):
        return (
            f"it is not the file fetched on {record.fetched}: its SHA-256 is {digests['sha256']}, "
            f"that one's was {record.digests.get('sha256')}"
        )
    return None


class Place:
    """Where one raw file is kept, with its neighbours."""

    def __init__(self, folder: Path, name: str, origins: Sequence[str] = ()) -> None:
        self.folder = folder
        self.name = name
        self.origins = origins
        self.target = folder / name
        self.record_path = folder / f"{name}.json"
        self.partial = folder / f".{name}.part"
        self.state = folder / f".{name}.part.json"
        self.copy = folder / f".{name}.copy"
        self.new = folder / f".{name}.new"

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Wait until no other process works on this file."""
        self.folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(self.folder / f".{self.name}.lock")
        try:
            lock.acquire(timeout=0)
        except Timeout:
            LOG.warning("waiting for another process that is fetching %s", self.name)
            lock.acquire()
        try:
            yield
        finally:
            lock.release()

    @property
    def foreign(self) -> bool:
        """Whether the file is that of another catalogue, which uses the same names."""
        record = self.record()
        if record is None or not self.origins:
            return False
        told = record.origins or ([record.source] if "://" in record.source else [])
        return bool(told) and not {*told, *record.digests.values()} & set(self.origins)

    def record(self) -> Record | None:
        """The record of the file, if one can be read."""
        return read_json(Record, self.record_path)

    def holds(self, file: RemoteFile) -> bool:
        """Whether the file is here and right: it is hashed, for its size and time prove nothing."""
        try:
            size = self.target.stat().st_size
        except FileNotFoundError:
            return False
        record = self.record()
        if self.foreign:
            return False
        digests: Mapping[str, str] = digest_file(self.target, ["sha256"])
        known = record is not None and record.digests.get("sha256") == digests["sha256"]
        if record and known:
            digests = record.digests  # of the same content, so the slower ones hold as well
        if not kinds_for(file) <= digests.keys():
            digests, known = digest_file(self.target, kinds_for(file)), False
        wrong = mismatch(file, size, digests, record)
        if wrong:
            LOG.warning("%s is not usable: %s", self.target, printable(wrong))
            return False
        if not known:
            with contextlib.suppress(OSError):  # a read-only folder only costs hashing again
                self.write_record(self.target, file, digests, "found in place")
        return True

    def write_record(
        self, path: Path, file: RemoteFile, digests: Mapping[str, str], source: str
    ) -> None:
        """Record the content of a path, and announce what is believed without proof."""
        status = path.stat()
        now = datetime.now(UTC).isoformat(timespec="seconds")
        if file.pinned is None and self.record() is None:
            LOG.warning(
                "no digest of %s is known; trusting this first copy. Its SHA-256 is %s: from now "
                "on that must match (kept in %s)",
                file.name, digests["sha256"], self.record_path,
            )  # fmt: skip
        self.write_json(
            self.record_path,
            asdict(
                Record(
                    status.st_size, dict(digests), source, now, status.st_mtime_ns,
                    list(self.origins),
                )
            ),
        )  # fmt: skip

    def write_json(self, path: Path, value: Mapping[str, Any]) -> None:
        """Write a small JSON object, whole or not at all, leaving nothing beside it when killed."""
        with self.new.open("w", encoding="utf-8") as stream:
            json.dump(value, stream, indent=1)
            stream.flush()
            os.fsync(stream.fileno())
        self.new.replace(path)

    def install(
        self, path: Path, file: RemoteFile, digests: Mapping[str, str], source: str
    ) -> None:
        """Give a verified, synchronised neighbour the final name.

        The record is written first: a crash in between leaves a complete partial file, which
        the record then describes.
        """
        self.write_record(path, file, digests, source)
        path.replace(self.target)
        path.unlink(missing_ok=True)  # renaming one hard link onto another leaves both
        self.state.unlink(missing_ok=True)


@dataclass(frozen=True)
class Version:
    """Which version of which remote file a partial file is the beginning of."""

    url: str
    etag: str = ""
    modified: str = ""
    total: int | None = None

    @property
    def validator(self) -> str:
        """What `If-Range` may carry: a strong ETag, else the date."""
        return self.etag if self.etag and not self.etag.startswith("W/") else self.modified

    def contradicts(self, other: "Version") -> bool:
        """Whether two answers for one address cannot be about the same content."""
        pairs = (
            (self.etag, other.etag),
            (self.modified, other.modified),
            (self.total, other.total),
        )
        return any(a and b and a != b for a, b in pairs)


class PartialFile:
    """The bytes held so far, hashed as they come."""

    def __init__(self, place: Place, kinds: set[str]) -> None:
        self.place = place
        self.version = read_json(Version, place.state)
        self.held = place.partial.stat().st_size if place.partial.exists() else 0
        self.furthest = self.held
        """The most that was ever held: going beyond it is progress, reaching it again is not."""
        self.pieced = self.held > 0
        """Whether these bytes may come from more than one answer."""
        self._kinds = kinds - {"git_blob"}  # that one needs the size first
        self._hashes: dict[str, Any] | None = None
        self._file = place.partial.open("ab", buffering=0)

    def __enter__(self) -> "PartialFile":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        if not self.held:
            self.place.partial.unlink(missing_ok=True)

    def belongs_to(self, version: Version) -> None:
        """Remember what the file is the beginning of."""
        if version != self.version:
            self.place.write_json(self.place.state, asdict(version))
            self.version = version

    def discard(self) -> None:
        """Start from nothing."""
        self._file.truncate(0)
        self.held = 0
        self.pieced = False
        self._hashes = None

    def append(self, piece: bytes) -> None:
        """Add bytes."""
        running = self._running()
        view = memoryview(piece)
        while view:
            written = self._file.write(view) or 0
            self.held += written
            view = view[written:]
        for one in running.values():
            one.update(piece)
        self.furthest = max(self.furthest, self.held)

    def digests(self, kinds: set[str]) -> dict[str, str]:
        """Digests of what is held."""
        done = {kind: one.hexdigest() for kind, one in self._running().items()}
        late = kinds - done.keys()
        return done | (digest_file(self.place.partial, late) if late else {})

    def synchronise(self) -> None:
        """Make sure the disk has it."""
        os.fsync(self._file.fileno())

    def _running(self) -> dict[str, Any]:
        """The hashes so far; what an earlier process left is read back once."""
        if self._hashes is None:
            self._hashes = hashes(self._kinds, 0)
            if self.held:
                with self.place.partial.open("rb", buffering=0) as stream:
                    while block := stream.read(BLOCK):
                        for one in self._hashes.values():
                            one.update(block)
        return self._hashes


def read_json(kind: type[T], path: Path) -> T | None:
    """Read a small JSON object; None if it is absent or damaged."""
    try:
        return checked(kind, parsed(path.read_bytes()))
    except (OSError, Misfit):
        return None


def no_room(place: Place, detail: str) -> DataError:
    """Build the error for a full disk."""
    free = shutil.disk_usage(place.folder).free
    return DataError(
        f"no room for {place.name} in {place.folder}: {detail}, {free / 1e6:,.1f} MB are free; "
        "make room, or point RECBENCH_HOME to a larger disk, and run the same command again"
    )
