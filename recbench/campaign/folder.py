"""The results folder of a campaign: an append-only log, and the tables made from it.

    trials.jsonl          one line per finished trial and part; the truth, only ever appended to
    per-user/ID-PART.parquet   one row per user: the values behind the means, unless a search
                          stopped the trial
    traces/ID.csv         one line per round of a fit, where --trace asked for it
    metrics.csv           the log as a table: a pure function of the log's numbers
    costs.csv             seconds, memory and run of the same trials: other on another day
    manifest.json         for every run: machine, versions, command, data, times
    .checkpoints/         what fits under way go on from if they are killed

A row is in the log only after its per-user file is whole on disk, so a killed run leaves
finished trials and nothing else. Lines and the manifest carry their own digest, and a line those of
the files that belong to it: what was damaged since is noticed when it is read.
"""

import contextlib
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from filelock import FileLock, Timeout

from recbench.campaign import manifest as manifests
from recbench.campaign.manifest import MANIFEST, Manifest, is_as_written, refuse_newer
from recbench.campaign.row import Row, furthest
from recbench.campaign.table import costs, csv_text, table
from recbench.errors import DataError, printable
from recbench.fields import Misfit, checked, parsed
from recbench.files import (
    DIGEST,
    atomic_path,
    clear_leftovers,
    digest_of,
    digest_of_file,
    sealed,
)

LOG = "trials.jsonl"
TABLE = "metrics.csv"
COSTS = "costs.csv"


def now() -> str:
    """The time as results record it: UTC, ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="seconds")


class Campaign:
    """One results folder, for writing and for reading."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / LOG
        self._read, self._lines = 0, dict[tuple[str, str, int], Row]()
        self._damaged, self._cut = dict[tuple[str, str], str](), False

    def create(self) -> None:
        """Make the folder, or say why results could not be kept there."""
        with self._writing("choose another folder with -o"):
            (self.folder / "per-user").mkdir(parents=True, exist_ok=True)
            with self.log.open("ab"):
                pass
            clear_leftovers(self.folder)
            clear_leftovers(self.folder / "per-user")

    @contextlib.contextmanager
    def _writing(self, advice: str = "what is finished is kept") -> Iterator[None]:
        """Say in a sentence that something could not be written, a full disk for one."""
        try:
            yield
        except Timeout:
            raise  # a lock that another process holds; an OSError only by descent
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno else str(error)
            raise DataError(
                f"results cannot be written to {self.folder} ({reason}); {advice}"
            ) from error

    @classmethod
    def open(cls, folder: Path) -> "Campaign":
        """Open an existing folder for reading."""
        if not (folder / LOG).is_file():
            if (folder / TABLE).is_file():
                raise DataError(
                    f"{folder} holds a table alone: read {TABLE}, or repeat the run that "
                    "manifest.json describes to rank, compare and report"
                )
            raise DataError(
                f"{folder} holds no results; `recbench list runs` shows where there are some"
            )
        return cls(folder)

    def lock(self) -> FileLock:
        """The lock under which the log and the tables are written."""
        return FileLock(self.folder / ".lock")

    def rows(self) -> dict[tuple[str, str], Row]:
        """What is known of each trial on each part: the last row, if the fit was not stopped."""
        return furthest(self.lines().values())

    def lines(self) -> dict[tuple[str, str, int], Row]:
        """The last row of each trial and part, and of each round that fits were stopped at.

        A line cut short by a crash is not a row. Only what was added since the last call is read:
        other processes may be writing.
        """
        try:
            with self.log.open("rb") as log:
                log.seek(self._read)
                added = log.read()
        except OSError:  # nothing has been written yet, or nothing ever can be: `create` tells
            return {}
        whole = added.rfind(b"\n") + 1
        for line in added[:whole].split(b"\n"):
            row = self._parse(line)
            if row is not None:
                self._lines[row.trial, row.part, row.stopped] = row
                self._damaged.pop((row.trial, row.part), None)
            elif line.strip():
                self._leave_out(line)
        self._read, self._cut = self._read + whole, whole < len(added)
        return dict(self._lines)

    def problems(self) -> list[str]:
        """What of the log is no row, as sentences."""
        sentences = []
        if self._damaged:
            named = [text for text in self._damaged.values() if text]
            more = f": {', '.join(named)}; what ran them runs them again" if named else ""
            sentences.append(f"{len(self._damaged)} damaged lines of {self.log} are left out{more}")
        if self._cut:
            sentences.append(f"the last line of {self.log} is cut short, or still being written")
        return sentences + self._doubts()

    def _leave_out(self, line: bytes) -> None:
        """Forget what a damaged line was about, so that it is run again, and remember to say so."""
        words = [re.search(rb'"%s": "([^"]*)"' % key, line) for key in (b"trial", b"part", b"text")]
        trial, part, text = (word[1].decode("utf-8", "replace") if word else "" for word in words)
        stopped = re.search(rb'"stopped": (\d{1,9})', line)
        self._lines.pop((trial, part, int(stopped[1]) if stopped else 0), None)
        name = printable(f"{text} on {part} (trial {trial})") if trial and part and text else ""
        key = (trial, part) if name else ("", digest_of(line))
        self._damaged[key] = name

    def _doubts(self) -> list[str]:
        """What of the manifest and the table is not as it was written, as sentences."""
        try:
            manifest = self.manifest()
        except DataError as error:
            return [str(error)]
        sentences, digests = [*manifest.get("doubts", [])], manifest.get("tables", [])
        with contextlib.suppress(OSError):
            content = (self.folder / TABLE).read_bytes()
            if digests and digest_of(content) not in digests:
                sentences.append(
                    f"{self.folder / TABLE} is not as it was written; the next run makes it anew "
                    "from the log"
                )
        return sentences

    def _parse(self, line: bytes) -> Row | None:
        try:
            fields = parsed(line)
            refuse_newer(fields, self.log)
            if not is_as_written(fields, line):
                return None
            fields.pop(DIGEST, None)
            return checked(Row, fields)
        except Misfit:
            return None

    def record(
        self, row: Row, per_user: pa.Table | None = None, others: Sequence[Path] = ()
    ) -> None:
        """Add one row, after the values behind it, and other files of it, are safe on disk."""
        with self._writing():
            written = list(others)
            if per_user is not None:
                written.append(self.per_user_path(row))
                # An open file: Arrow takes no names that are not UTF-8.
                with atomic_path(written[-1]) as temporary, temporary.open("wb") as file:
                    pq.write_table(per_user, file, compression="zstd")
            row = replace(row, files={self._name(path): digest_of_file(path) for path in written})
            with self.lock(), self.log.open("rb+") as log:
                if log.seek(0, os.SEEK_END):
                    log.seek(-1, os.SEEK_END)
                    if log.read(1) != b"\n":  # the last writer was killed in mid-line
                        log.write(b"\n")
                log.write(sealed(json.dumps(asdict(row), sort_keys=True)).encode() + b"\n")

    @property
    def checkpoints(self) -> Path:
        """Where fits that go in rounds are saved until their rows are here."""
        return self.folder / ".checkpoints"

    def per_user_path(self, row: Row) -> Path:
        """Where the per-user values of a row are."""
        return self.folder / "per-user" / f"{row.trial}-{row.part}.parquet"

    def per_user(self, row: Row) -> pd.DataFrame:
        """The values of one row, a line per user."""
        path = self.per_user_path(row)
        try:
            content = self.content(row, path)
            frame: pd.DataFrame = pq.read_table(pa.BufferReader(content)).to_pandas()
        except FileNotFoundError as error:
            raise DataError(
                f"the per-user values of {row.text} are gone ({path}); the command that ran it "
                "makes them again with --force"
            ) from error
        except (OSError, pa.ArrowException) as error:
            raise DataError(
                f"the per-user values of {row.text} cannot be read from {path} ({error})"
            ) from error
        return frame

    def content(self, row: Row, path: Path) -> bytes:
        """The bytes of a file that belongs to a row, which must be those that were written."""
        content = path.read_bytes()
        if row.files.get(self._name(path), digest_of(content)) != digest_of(content):
            raise DataError(
                f"{path} of {row.text} is damaged: it is not as it was written; the command that "
                "ran it makes it again with --force"
            )
        return content

    def _name(self, path: Path) -> str:
        return path.relative_to(self.folder).as_posix()

    def mean_per_user(self, rows: Sequence[Row]) -> pd.DataFrame:
        """The values of several seeds of one model, averaged user by user."""
        frames = [self.per_user(row) for row in rows]
        first, *others = frames
        if any(not frame["user"].equals(first["user"]) for frame in others):
            raise DataError(f"the seeds of {rows[0].text} were measured on different users")
        names = [n for n in first if n != "user" and all(n in frame for frame in others)]
        mean = np.mean([frame[names].to_numpy(np.float64) for frame in frames], axis=0)
        return pd.DataFrame(mean, columns=names).assign(user=first["user"])

    def claim(self, work: str) -> FileLock | None:
        """Reserve a piece of work for this process; None if another is at it.

        The reservation ends with `release`, or with the process.
        """
        folder = self.folder / ".claims"
        lock = FileLock(folder / f"{work}.lock")
        try:
            with self._writing():
                folder.mkdir(exist_ok=True)
                lock.acquire(blocking=False)
        except Timeout:
            return None
        return lock

    def forget_claims(self) -> None:
        """Remove the files behind reservations that nobody holds."""
        for path in (self.folder / ".claims").glob("*.lock"):
            lock = self.claim(path.stem)
            if lock is not None:
                path.unlink(missing_ok=True)
                lock.release()
        with contextlib.suppress(OSError):
            (self.folder / ".claims").rmdir()

    def forget_checkpoints(self) -> None:
        """Remove the folder of checkpoints, unless some fit has still to be finished."""
        with contextlib.suppress(OSError):
            self.checkpoints.rmdir()

    def add_run(self, run: Mapping[str, Any]) -> None:
        """Describe one invocation in the manifest, replacing what it said of itself before."""
        with self._writing(), self.lock():
            before = self.manifest()
            runs = [other for other in before["runs"] if other["id"] != run["id"]]
            manifests.write(self.folder, {**before, "runs": [*runs, run]})

    def manifest(self) -> Manifest:
        """What is known of every run; empty if there was none yet."""
        return manifests.read(self.folder)

    def select(self, dataset: str | None = None) -> str:
        """The metric that the last run selected by; without a manifest, any that was measured."""
        runs = [r for r in self.manifest()["runs"] if dataset in (None, r["dataset"]["name"])]
        if runs:
            return runs[-1]["select"]
        return next((name for row in self.rows().values() for name in row.metrics), "")

    def write_table(self, select: str) -> None:
        """Write metrics.csv and costs.csv anew from the log."""
        with self._writing(), self.lock():
            rows = self.rows().values()
            text = csv_text(table(rows, select))
            if (self.folder / MANIFEST).exists():
                # The one before, too: a kill may leave that in place.
                before = self.manifest()
                digests = [*before.get("tables", []), digest_of(text.encode())]
                manifests.write(
                    self.folder, {**before, "tables": list(dict.fromkeys(digests))[-2:]}
                )
            for name, content in ((TABLE, text), (COSTS, csv_text(costs(rows)))):
                with atomic_path(self.folder / name) as temporary:
                    temporary.write_bytes(content.encode())


def default_folder(dataset: str, split: str) -> Path:
    """results/DATASET-SPLIT, in characters that any file system takes."""
    return Path("results") / re.sub(r"[^A-Za-z0-9.=-]+", "_", f"{dataset}-{split}")


def open_results(
    folder: Path | None = None, announce: Callable[[str], None] = lambda text: None
) -> Campaign:
    """A results folder that holds some; by default the one under results/ written to last.

    What of it is damaged is announced.
    """
    logs = sorted(Path("results").glob(f"*/{LOG}"), key=lambda path: path.stat().st_mtime)
    if folder is None and not logs:
        raise DataError(
            "there are no results under results/; say which FOLDER, or `recbench run` first"
        )
    campaign = Campaign.open(folder or logs[-1].parent)
    rows = campaign.rows()
    for problem in campaign.problems():
        announce(problem)
    if not rows:
        raise DataError(f"{campaign.folder} holds no finished trials yet")
    return campaign
