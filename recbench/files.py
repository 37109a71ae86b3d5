"""Files that are whole or not there, that know if they were damaged, and recbench's own folder."""

import contextlib
import hashlib
import os
import platform
import re
from pathlib import Path

import platformdirs

DIGEST = "digest"
"""The last key of a sealed JSON object."""
SEAL = re.compile(rb',\s*"digest": "([0-9a-f]{64})"\s*\}\s*\Z')


def digest_of(content: bytes) -> str:
    """The SHA-256 of some bytes."""
    return hashlib.sha256(content).hexdigest()


def digest_of_file(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sealed(text: str) -> str:
    """A JSON object as text, with the SHA-256 of what is before it as its last key."""
    body, end = text.rstrip().removesuffix("}").rstrip(), "\n}" if "\n" in text else "}"
    gap = ",\n " if "\n" in text else ", "
    return f'{body}{gap}"{DIGEST}": "{digest_of(body.encode())}"{end}'


def is_sealed(content: bytes) -> bool:
    """Whether a JSON object is, byte for byte, as `sealed` left it."""
    seal = SEAL.search(content, max(0, len(content) - 200))
    return seal is not None and digest_of(content[: seal.start()]).encode() == seal[1]


def readable(name: str) -> str:
    """A file's name as text that can be written: its bytes need not be any."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


class atomic_path:  # noqa: N801 - used like a function
    """Give a temporary neighbour of a path to write to; rename it into place on success."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.temporary = path.with_name(f".{path.name}.{platform.node()}-{os.getpid()}.part")

    def __enter__(self) -> Path:
        return self.temporary

    def __exit__(self, kind: object, error: object, _: object) -> None:
        if kind is not None:
            with contextlib.suppress(OSError):
                self.temporary.unlink(missing_ok=True)
            if isinstance(error, OSError) and error.filename == str(self.temporary):
                error.filename = str(self.path)  # the one that the user asked for
            return
        with self.temporary.open("rb+") as written:
            os.fsync(written.fileno())
        self.temporary.replace(self.path)


def clear_leftovers(folder: Path) -> None:
    """Remove what processes of this machine that died left half-written in a folder."""
    for path in folder.glob(f".*.{platform.node()}-*.part"):
        pid = path.name.removesuffix(".part").rpartition("-")[2]
        if pid.isdigit() and not _alive(int(pid)):
            path.unlink(missing_ok=True)


def _alive(pid: int) -> bool:
    with contextlib.suppress(PermissionError):  # somebody else's, so alive
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
    return True


def home_folder() -> Path:
    """Where recbench keeps what it fetched and prepared."""
    if os.environ.get("RECBENCH_HOME"):
        return Path(os.environ["RECBENCH_HOME"]).expanduser()
    if os.environ.get("XDG_CACHE_HOME"):
        return Path(os.environ["XDG_CACHE_HOME"]) / "recbench"
    return platformdirs.user_cache_path("recbench", appauthor=False)
