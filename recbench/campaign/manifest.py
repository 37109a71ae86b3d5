"""What `manifest.json` says of every run into a results folder, and how much of it is believed."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from recbench.campaign.row import SCHEMA, SEALED
from recbench.errors import DataError
from recbench.fields import Misfit, checked, parsed
from recbench.files import DIGEST, atomic_path, is_sealed, sealed

MANIFEST = "manifest.json"


class Blas(TypedDict):
    """A library that multiplies matrices."""

    internal_api: str
    version: str | None


class Machine(TypedDict):
    """Where a run took place: what of it is shown, or compared with other runs."""

    recbench: str
    commit: str | None
    dirty: bool | None
    cpu: str
    cores: int
    memory_bytes: int
    platform: str
    blas: list[Blas]
    packages: dict[str, str | None]


class Crew(TypedDict):
    """Machines that are alike, and the workers on them."""

    cpu: str
    cores: int
    memory_bytes: int
    platform: str
    blas: list[Blas]
    workers: list[str]


class Data(TypedDict):
    """What a run was made on."""

    name: str
    fingerprint: str
    users: int
    items: int
    interactions: int
    provenance: dict[str, Any]


class Step(TypedDict):
    """What one kind of work took of a run, in all of its processes."""

    times: int
    seconds: float
    processor_seconds: float
    peak_bytes: int


class Run(TypedDict):
    """One invocation."""

    id: str
    status: str
    command: list[str]
    written: str
    select: str
    metrics: list[str]
    split: str
    search: NotRequired[dict[str, Any]]
    """What proposed trials, by its name, and how it was set."""
    dataset: Data
    peak_memory_bytes: int
    steps: NotRequired[dict[str, Step]]
    environment: Machine
    crew: NotRequired[list[Crew]]
    """The machines of a cluster that fitted, kinds of them; `environment` is the one that asked."""
    unbegun: NotRequired[dict[str, int]]
    """By model: how many trials were not begun, since its time was used up."""


class Manifest(TypedDict):
    """The whole file."""

    schema: int
    runs: list[Run]
    tables: NotRequired[list[str]]
    """The SHA-256 of the tables that were written last."""
    doubts: NotRequired[list[str]]
    """What was found damaged, kept when the file is written again."""


def read(folder: Path) -> Manifest:
    """The manifest of a results folder, empty if there is none yet."""
    path = folder / MANIFEST
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return {"schema": SCHEMA, "runs": []}
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror})") from error
    try:
        fields = parsed(content)
        refuse_newer(fields, path)
        whole = is_as_written(fields, content)
        fields.pop(DIGEST, None)
        manifest = checked(Manifest, fields)
    except Misfit as error:
        raise DataError(f"{path} is damaged ({error}); move it away to go on") from error
    if not whole:
        # Kept when it is written again: what was changed stays in it.
        doubt = f"{path} was changed or damaged since it was written"
        manifest["doubts"] = list(dict.fromkeys([*manifest.get("doubts", []), doubt]))
    return manifest


def write(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Write the manifest, sealed; to be called under the lock of the folder."""
    text = json.dumps({**manifest, "schema": SCHEMA}, indent=1)
    with atomic_path(folder / MANIFEST) as temporary:
        temporary.write_text(sealed(text) + "\n", encoding="utf-8")


def is_as_written(fields: Mapping[str, Any], content: bytes) -> bool:
    """Whether a line or a manifest has its seal; those of versions before have none."""
    schema = fields.get("schema", 0)
    old = isinstance(schema, int) and schema < SEALED and DIGEST not in fields
    return old or is_sealed(content)


def refuse_newer(fields: Mapping[str, Any], path: Path) -> None:
    """Never guess what a later version meant."""
    schema = fields.get("schema", 0)
    if isinstance(schema, int) and schema > SCHEMA:
        raise DataError(
            f"{path} was written by a newer recbench (schema {schema}, this one reads {SCHEMA}); "
            "upgrade recbench to read it"
        )
