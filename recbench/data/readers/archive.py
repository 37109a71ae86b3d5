"""Files inside files: every member of a path, as a stream, without unpacking to disk.

What a file is, its first bytes say, never its name: Yelp's `yelp_dataset.tar` is in fact
gzip'd. Archives come from strangers, so what they unpack to is counted against limits, and
names that point outside the archive are refused although nothing is ever written here.
"""

from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from recbench.data.readers import tar, zips
from recbench.data.readers.streams import (
    FOLDER,
    GZIP_MAGIC,
    Entry,
    File,
    Gunzip,
    Joined,
    Stream,
    read_full,
    shown,
)
from recbench.errors import DataError

FOREIGN = {
    b"7z\xbc\xaf\x27\x1c": "7-Zip",
    b"Rar!\x1a\x07": "RAR",
    b"\xfd7zXZ\0": "xz",
    b"BZh91AY&SY": "bzip2",
    b"\x28\xb5\x2f\xfd": "Zstandard",
    b"\x04\x22\x4d\x18": "LZ4",
    b"PK\x03\x04": "zip",  # inside another archive: it is read from its end, which a stream lacks
}
MAX_DEPTH = 4
"""Layers of packing; the deepest dataset known has three, a gzip'd tar in a zip."""

CLUTTER = ("__MACOSX", ".DS_Store")
"""What a file manager adds to an archive without being asked."""


@dataclass(frozen=True)
class Limits:
    """How much a file may ask of the machine before it is refused."""

    max_bytes: int = 1 << 37
    """Bytes that one path may unpack to, over all its layers."""
    max_ratio: float = 200.0
    """Unpacked bytes per byte on disk; real datasets stay below 30, deflate can reach 1032."""
    max_line: int = 1 << 24
    """Bytes of one line, the least that must be held in memory at once."""


LIMITS = Limits()
HARMLESS = 1 << 26
"""Unpacked bytes up to which no ratio is suspicious: short files can be very regular."""

Wanted = Callable[[str], bool]


@dataclass(frozen=True)
class Member:
    """One file to read: its stream, its name in the innermost archive, and how to speak of it."""

    label: str
    name: str
    stream: Stream

    def error(self, text: str, line: int | None = None) -> DataError:
        """Build the error that names this file and, where known, a line of it."""
        where = f"{self.label}, line {line:,}: " if line else f"{self.label} "
        return DataError(where + text)


def members(path: Path, limits: Limits, wanted: Wanted) -> Generator[Member, None, None]:
    """Yield the files under a path whose name is wanted, through any layers of packing.

    A path that is itself a file to read, gzip'd or not, is yielded whatever its name. Each
    stream is good until the next member is asked for. No member at all is an error. To be used
    `with closing(…)`: what is open is closed at once, whatever happens to the reader.
    """
    met: list[str] = []
    found = False
    for file, given in _files(path):
        with closing(_Walk(file, limits, wanted, met).members(given)) as walk:
            for member in walk:
                found = True
                yield member
    if not found:
        raise DataError(f"{path} holds none of the files wanted; it holds {_listing(met)}")


def matcher(pattern: str) -> Wanted:
    """Match names against a path or glob; a pattern without a folder matches in any folder."""

    def wanted(name: str) -> bool:
        if fnmatchcase(name, pattern):
            return True
        return "/" not in pattern and fnmatchcase(PurePosixPath(name).name, pattern)

    return wanted


def chosen(member: str | None, path: Path, limits: Limits) -> Wanted:
    """Match the members that an option names; without one, an archive must hold one file."""
    if member is not None:
        return matcher(member)
    names = [member.name for member in members(path, limits, lambda _: True)]
    if len(names) > 1:
        raise DataError(f"{path} holds {_listing(names)}: choose one with the option 'member'")
    return lambda _: True


def _files(path: Path) -> list[tuple[Path, bool]]:
    """List a folder's files, or the path itself; each with whether it was named by the user."""
    if not path.is_dir():
        return [(path, True)]
    return [(file, False) for file in sorted(path.rglob("*")) if file.is_file()]


def _listing(names: list[str], most: int = 8) -> str:
    listed = ", ".join(f"'{shown(name)}'" for name in names[:most]) or "no files"
    return f"{listed} and {len(names) - most:,} more" if len(names) > most else listed


@dataclass
class _Walk:
    """The descent into one file: what is wanted, what was met, how much was unpacked."""

    path: Path
    limits: Limits
    wanted: Wanted
    met: list[str] = field(default_factory=list)
    on_disk: int = 0
    unpacked: int = 0

    def members(self, given: bool) -> Generator[Member, None, None]:
        """Open the file and yield what is wanted of it."""
        try:
            self.on_disk = self.path.stat().st_size
            with self.path.open("rb") as file:
                label = str(self.path)
                if zips.is_zip(file):
                    for entry in _once(zips.entries(file, label, self._count), label):
                        yield from self._entry(label, entry, 0)
                else:
                    yield from self._descend(
                        Member(label, self.path.name, File(file, label)), given
                    )
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise DataError(f"{self.path} cannot be read: {reason}") from None

    def _descend(self, member: Member, given: bool, depth: int = 0) -> Iterator[Member]:
        """Look at the first bytes of a file and go on into it, or yield it."""
        if depth > MAX_DEPTH:
            raise member.error(f"is packed more than {MAX_DEPTH} times over; unpack it first")
        head = read_full(member.stream, tar.BLOCK)
        member = replace(member, stream=Joined(head, member.stream))
        if head.startswith(GZIP_MAGIC):
            stream = Gunzip(member.stream, member.label, self._count)
            inner = Member(member.label, member.name.removesuffix(".gz"), stream)
            yield from self._descend(inner, given, depth + 1)
        elif tar.is_header(head):
            for entry in _once(tar.entries(member.stream, member.label), member.label):
                yield from self._entry(member.label, entry, depth)
        elif given or self._is_wanted(member.name):
            kind = next((name for magic, name in FOREIGN.items() if head.startswith(magic)), None)
            if kind:
                raise member.error(f"is packed with {kind}; unpack it first")
            yield member

    def _entry(self, container: str, entry: Entry, depth: int) -> Iterator[Member]:
        """Go on into one entry of an archive, if it is a file and a safe one."""
        _check_name(container, entry.name)
        label = f"{container}: {shown(entry.name)}"
        if not entry.kind:
            yield from self._descend(Member(label, entry.name, entry.stream), False, depth + 1)
        elif entry.kind != FOLDER and self._is_wanted(entry.name):
            raise DataError(f"{label} is {entry.kind}, which cannot be read")

    def _is_wanted(self, name: str) -> bool:
        parts = PurePosixPath(name).parts
        if any(part in CLUTTER or part.startswith("._") for part in parts):
            return False
        self.met.append(name)
        return self.wanted(name)

    def _count(self, size: int) -> None:
        """Refuse a file that unpacks to far more than an honest one would."""
        self.unpacked += size
        if self.unpacked > max(HARMLESS, self.limits.max_ratio * self.on_disk):
            raise DataError(
                f"{self.path} unpacks to more than {self.limits.max_ratio:g} times its size, "
                "as no honest dataset does; fetch it again from its source"
            )
        if self.unpacked > self.limits.max_bytes:
            raise DataError(
                f"{self.path} unpacks to more than the limit of {self.limits.max_bytes:,} bytes"
            )


def _once(entries: Iterator[Entry], container: str) -> Iterator[Entry]:
    """The same entries; a file named twice is refused, for which of the two is meant?"""
    seen = set[PurePosixPath]()
    for entry in entries:
        path = PurePosixPath(entry.name)
        if path in seen:
            raise DataError(f"{container} holds '{shown(entry.name)}' twice; keep one of them")
        if entry.kind != FOLDER:
            seen.add(path)
        yield entry


def _check_name(container: str, name: str) -> None:
    path = PurePosixPath(name.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts or name[1:2] == ":":
        raise DataError(f"{container} holds '{shown(name)}', which points outside the archive")
