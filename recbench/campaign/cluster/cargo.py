"""What every machine of a cluster must have: the plan with its data, packed, and plugin files.

It comes to a machine once. It is read from the results folder where that is shared, or else from a
file beside the folders of Dask's workers, which the first worker of the machine was sent.
"""

import os
import platform
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from recbench.campaign.executors import Parcel
from recbench.files import clear_leftovers, digest_of, digest_of_file

DIGITS = 16
"""Of a digest in the name of a file."""


class Unfit(Exception):
    """This worker cannot take part; says why. Others may."""


@dataclass(frozen=True)
class Cargo:
    """How a machine knows what it must have."""

    digest: str
    size: int
    plugins: tuple[tuple[str, str], ...] = ()
    """The paths of plugin files, and the SHA-256 of each."""
    shared: Path | None = None
    """What machines that see the results folder read."""
    scratch: Path | None = None
    """Where large inverses are kept."""

    def find(self, store: Path) -> Path | None:
        """Where it is, on this machine."""
        for path in (self.shared, self.place(store)):
            with suppress(OSError):
                if path is not None and path.stat().st_size == self.size:
                    return path
        return None

    def place(self, store: Path) -> Path:
        """Where it is kept if it was sent."""
        return store / f"recbench-{self.digest[:DIGITS]}.cargo"

    def take(self, store: Path, start: int, piece: bytes) -> None:
        """Keep a piece of it; after the last, see that all is there."""
        path = self.place(store)
        part = path.with_suffix(".part")
        try:
            with part.open("r+b" if start else "wb") as file:
                file.seek(start)
                file.write(piece)
            if start + len(piece) == self.size:
                if digest_of_file(part) != self.digest:
                    raise Unfit("the data came in damaged")
                part.replace(path)
        except OSError as error:
            with suppress(OSError):
                part.unlink(missing_ok=True)
            raise Unfit(f"the data cannot be kept in {store} ({error.strerror})") from error

    def read(self, store: Path) -> bytes:
        """Its content, every byte as it was packed."""
        path = self.find(store)
        try:
            content = path.read_bytes() if path is not None else b""
        except OSError as error:
            raise Unfit(f"{path} cannot be read ({error.strerror})") from error
        if digest_of(content) != self.digest:
            raise Unfit("the data are not there any more, or damaged")
        return content

    def check_plugins(self) -> None:
        """See that plugin files are here, and the same."""
        for name, digest in self.plugins:
            path = Path(name)
            if not path.is_file():
                raise Unfit(f"the plugin {path} is not there; put it where all workers have it")
            if digest_of_file(path) != digest:
                raise Unfit(f"the plugin {path} is another file than where the run was started")


def share(parcel: Parcel, folder: Path | None, scratch: Path | None) -> Cargo:
    """Say what there is to bring, and put it where machines with the same folders find it."""
    return Cargo(
        digest_of(parcel.pickled), len(parcel.pickled),
        tuple((path, digest_of_file(Path(path))) for path in parcel.plugins),
        None if folder is None else _written(parcel.pickled, folder.resolve()), scratch,
    )  # fmt: skip


def _written(content: bytes, folder: Path) -> Path | None:
    """A file that the next run removes if this one is killed; nothing depends on it."""
    path = folder / f".cargo.{platform.node()}-{os.getpid()}.part"
    try:
        clear_leftovers(folder)
        path.write_bytes(content)
    except OSError:
        with suppress(OSError):
            path.unlink(missing_ok=True)
        return None
    return path
