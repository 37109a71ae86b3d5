"""The published recipes by the letter: raw files of the real size through `recbench fetch`.

    python bench/recipes.py                      # ML-20M, Netflix and MSD, full size
    python bench/recipes.py --only ml-20m --size 0.1

Made-up ratings are written in the layout of the originals and fetched from a server on this machine
with the catalogue's own entry (less its digests and counts). Of all rows, the counts that come out
must be those of plain NumPy. Of every hundredth user, cut from the same file line by line,
everything must be what slow loops make of the papers' protocol: rows, users, items, order, the
permutation of users, and what each held-out user is shown and asked for. Seconds and peak memory
are of the whole `fetch`: download, hash, read, binarise, filter, number, write.
"""

import argparse
import gzip
import io
import os
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import yaml
from raw_files import text_of

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "splits"))
SAMPLE = 100
"""One user of so many is prepared by slow loops as well."""
ROWS = 1 << 21
SECOND_FROM, SECOND_TO = 1_100_000_000, 1_400_000_000
DICE = np.random.default_rng(0)

Numbers = npt.NDArray[np.int64]
Row = tuple[Any, Any, float]


class Ratings(NamedTuple):
    """Rows of some users (of some movies, in Netflix's files): numbers from 0, and values."""

    user: Numbers
    item: Numbers
    value: Numbers


# --- Rows -------------------------------------------------------------------------------------


def counts(groups: int, rows: int, most: int) -> Numbers:
    """Rows per group: a few have many, each has one, the sum is exact."""
    wild = DICE.lognormal(0.0, 1.3, groups)
    found = np.clip((wild * rows / wild.sum()).astype(np.int64), 1, most)
    while (rest := rows - int(found.sum())) != 0:
        movable = np.flatnonzero(found < most if rest > 0 else found > 1)
        found[DICE.permutation(movable)[: abs(rest)]] += np.sign(rest)
    return found


def distinct(group: Numbers, others: int, power: float) -> Numbers:
    """Another number for each row, never twice in a group and ascending in it; small ones often."""

    def draw(count: int) -> Numbers:
        return (others * DICE.random(count) ** power).astype(np.int64)

    key = np.sort(group * others + draw(len(group)))
    while len(again := np.flatnonzero(key[1:] == key[:-1])):
        key[again] = key[again] // others * others + draw(len(again))
        key.sort()
    return key % others


def grouped(groups: int, others: int, rows: int, power: float) -> Iterator[tuple[Numbers, Numbers]]:
    """All rows, some whole groups at a time."""
    sizes = counts(groups, rows, others // 3)
    ends = np.cumsum(sizes)
    cuts = np.searchsorted(ends, np.arange(ROWS, rows + ROWS, ROWS), side="right").tolist()
    for start, stop in zip([0, *cuts[:-1]], cuts, strict=True):
        group = np.repeat(np.arange(start, stop), sizes[start:stop])
        yield group, distinct(group, others, power)


def stars(user: Numbers, levels: int) -> Numbers:
    """Values 1 to `levels`; one user in seven hardly likes anything."""
    value = DICE.integers(1, levels + 1, len(user))
    grudging = (user % 7 == 3) & (DICE.random(len(user)) < 0.98)
    return np.where(grudging, np.minimum(value, levels // 2), value)


# --- Layouts: how the rows are written, and read back by the letter ---------------------------


def zipped(path: Path, member: str, pieces: Iterable[bytes]) -> None:
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open(member, "w", force_zip64=True) as file,
    ):
        for piece in pieces:
            file.write(piece)


@contextmanager
def unzipped(path: Path, member: str) -> Iterator[io.TextIOWrapper]:
    with zipfile.ZipFile(path) as archive, archive.open(member) as file:
        yield io.TextIOWrapper(file, encoding="ascii")


class MovieLens:
    """`userId,movieId,rating,timestamp` by user and movie; movie ids have gaps."""

    name, file, member = "ml-20m", "ml-20m.zip", "ml-20m/ratings.csv"
    header = b"userId,movieId,rating,timestamp\n"
    users, items, rows = 138_493, 26_744, 20_000_263
    bound, minima = 3.5, (0, 5)
    movies = np.sort(np.random.default_rng(1).permutation(131_262)[:items]) + 1

    def ratings(self, users: int, rows: int) -> Iterator[Ratings]:
        """So many rows, some at a time."""
        for user, item in grouped(users, self.items, rows, power=3):
            yield Ratings(user, item, stars(user, 10) / 2)

    def text(self, part: Ratings) -> bytes:
        """Rows as the file has them."""
        when = DICE.integers(SECOND_FROM, SECOND_TO, len(part.user))
        columns = [part.user + 1, self.movies[part.item], part.value, when]
        return text_of(pa.table(dict(zip("umrt", columns, strict=True))))

    def write(self, path: Path, parts: Iterator[Ratings]) -> None:
        """Write the raw file."""
        zipped(path, self.member, self._pieces(parts))

    def _pieces(self, parts: Iterator[Ratings]) -> Iterator[bytes]:
        yield self.header
        yield from map(self.text, parts)

    def sample(self, path: Path, small: Path) -> list[Row]:
        """Read the file by the letter; write and return the rows of one user in a hundred."""
        rows, lines = [], [self.header]
        with unzipped(path, self.member) as file:
            next(file)
            for line in file:
                user, movie, rating, _ = line.split(",")
                if int(user) % SAMPLE == 0:
                    rows.append((int(user), int(movie), float(rating)))
                    lines.append(line.encode())
        zipped(small, self.member, lines)
        return rows


class Songs:
    """`user, song, plays` between tabs, without a header; rows of a user stand together."""

    name, file, member = "msd", "train_triplets.txt.zip", "train_triplets.txt"
    users, items, rows = 1_019_318, 384_546, 48_373_586
    bound, minima = None, (200, 20)

    def ratings(self, users: int, rows: int) -> Iterator[Ratings]:
        """So many rows, some at a time."""
        for user, item in grouped(users, self.items, rows, power=8):
            yield Ratings(user, item, DICE.geometric(0.5, len(user)))

    def write(self, path: Path, parts: Iterator[Ratings]) -> None:
        """Write the raw file."""
        names = pa.array([os.urandom(20).hex() for _ in range(self.users)])
        songs = pa.array([f"SO{DICE.bytes(8).hex().upper()}" for _ in range(self.items)])

        def piece(part: Ratings) -> bytes:
            columns = {"u": names.take(part.user), "s": songs.take(part.item), "n": part.value}
            return text_of(pa.table(columns), "\t")

        zipped(path, self.member, map(piece, parts))

    def sample(self, path: Path, small: Path) -> list[Row]:
        """Read the file by the letter; write and return the rows of one user in a hundred."""
        rows, lines, numbers = [], [], {}
        with unzipped(path, self.member) as file:
            for line in file:
                user, song, plays = line.split("\t")
                if numbers.setdefault(user, len(numbers)) % SAMPLE == 0:
                    rows.append((user, song, float(plays)))
                    lines.append(line.encode())
        zipped(small, self.member, lines)
        return rows


class Movies:
    """A file per movie, `movie:` and `user,stars,date` lines, in a tar in a gzip'd tar."""

    name, file = "netflix", "nf_prize_dataset.tar.gz"
    users, items, rows = 480_189, 17_770, 100_480_507
    bound, minima = 3.5, (0, 5)
    ids = np.sort(np.random.default_rng(2).permutation(2_649_429)[:users]) + 1

    def ratings(self, users: int, rows: int) -> Iterator[Ratings]:
        """So many rows, some at a time."""
        for item, user in grouped(self.items, users, rows, power=4):
            order = np.lexsort((DICE.random(len(item)), item))  # users of a movie in no order
            yield Ratings(user[order], item[order], stars(user[order], 5))

    def write(self, path: Path, parts: Iterator[Ratings]) -> None:
        """Write the raw file."""
        inner = path.with_name("training_set.tar")
        with tarfile.open(inner, "w") as archive:
            for part in parts:
                self._write_movies(archive, part)
        with tarfile.open(path, "w:gz", compresslevel=1) as archive:
            archive.add(inner, "download/training_set.tar")
        inner.unlink()

    def _write_movies(self, archive: tarfile.TarFile, part: Ratings) -> None:
        """Each movie's file, in no order."""
        edges = np.flatnonzero(np.diff(part.item, prepend=-1, append=-1)).tolist()
        for at in DICE.permutation(len(edges) - 1).tolist():
            rows = slice(edges[at], edges[at + 1])
            days = pa.array(DICE.integers(10_592, 13_148, rows.stop - rows.start, np.int32))
            columns = {"u": self.ids[part.user[rows]], "v": part.value[rows]}
            table = pa.table(columns | {"d": days.cast(pa.date32())})
            movie = int(part.item[rows.start]) + 1
            self._add(archive, movie, b"%d:\n" % movie + text_of(table))

    @staticmethod
    def _add(archive: tarfile.TarFile, movie: int, text: bytes) -> None:
        member = tarfile.TarInfo(f"training_set/mv_{movie:07}.txt")
        member.size = len(text)
        archive.addfile(member, io.BytesIO(text))

    def sample(self, path: Path, small: Path) -> list[Row]:
        """Read the file by the letter; write and return the rows of one user in a hundred."""
        chosen, texts = set(self.ids[::SAMPLE].tolist()), {}
        with gzip.open(path) as packed, tarfile.open(fileobj=packed, mode="r|") as outer:
            for member in outer:
                with tarfile.open(fileobj=outer.extractfile(member), mode="r|") as archive:
                    for file in archive:
                        texts.update([self._lines(archive.extractfile(file), chosen)])
        self._pack(small, texts)
        return [
            (int(user), movie, float(value))
            for movie in sorted(texts)
            for user, value, _ in (line.split(",") for line in texts[movie])
        ]

    @staticmethod
    def _lines(file: Any, chosen: set[int]) -> tuple[int, list[str]]:
        movie, *lines = file.read().decode().splitlines()
        return int(movie[:-1]), [line for line in lines if int(line.partition(",")[0]) in chosen]

    def _pack(self, path: Path, texts: dict[int, list[str]]) -> None:
        inner = path.with_name("training_set.tar")
        with tarfile.open(inner, "w") as archive:
            for movie, lines in texts.items():
                text = "".join(f"{line}\n" for line in lines).encode()
                self._add(archive, movie, b"%d:\n" % movie + text)
        with tarfile.open(path, "w:gz", compresslevel=1) as archive:
            archive.add(inner, "download/training_set.tar")
        inner.unlink()


LAYOUTS = {layout.name: layout for layout in (MovieLens(), Movies(), Songs())}


# --- The same by NumPy on all rows, and by loops on the sample --------------------------------


@dataclass
class Tally:
    """Positive rows of everything written, to count what should come out."""

    layout: Any
    kept: list[tuple[Numbers, Numbers]]

    def watch(self, parts: Iterator[Ratings]) -> Iterator[Ratings]:
        """Pass rows on, and remember the positive ones."""
        for part in parts:
            liked = slice(None) if self.layout.bound is None else part.value > self.layout.bound
            self.kept.append((part.user[liked].astype(np.int32), part.item[liked].astype(np.int32)))
            yield part

    def expected(self) -> tuple[int, int, int]:
        """Users, items and rows after items, then users, of too few rows are gone."""
        user, item = (np.concatenate(column) for column in zip(*self.kept, strict=True))
        self.kept.clear()
        few_items, few_users = self.layout.minima
        stays = np.bincount(item)[item] >= few_items
        user, item = user[stays], item[stays]
        stays = np.bincount(user)[user] >= few_users
        return len(np.unique(user[stays])), len(np.unique(item[stays])), int(stays.sum())


def by_loops(layout: Any, rows: list[Row]) -> list[Row]:
    """The rows that the recipe keeps, in file order."""
    rows = [row for row in rows if layout.bound is None or row[2] > layout.bound]
    few_items, few_users = layout.minima
    items = Counter(item for _, item, _ in rows)
    rows = [row for row in rows if items[row[1]] >= few_items]
    users = Counter(user for user, _, _ in rows)
    return [row for row in rows if users[row[0]] >= few_users]


# --- The whole path ---------------------------------------------------------------------------


class Quiet(SimpleHTTPRequestHandler):
    """A server of files that does not talk."""

    def log_message(self, *args: Any) -> None:
        """Say nothing."""


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve a folder's files on this machine; yield their address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def write_catalogue(folder: Path, layout: Any, address: str) -> None:
    """The catalogue's own entry, without what only the real file has."""
    entry = yaml.safe_load((ROOT / "datasets.yaml").read_text(encoding="utf-8"))[layout.name]
    entry["files"] = [{"name": layout.file, "urls": [f"{address}/{layout.file}"]}]
    for key in ("expected", "terms", "other_layouts", "published"):
        entry.pop(key, None)
    (folder / "datasets.yaml").write_text(yaml.safe_dump({layout.name: entry}), encoding="utf-8")


def fetch(folder: Path, layout: Any, path: Path) -> tuple[Any, float, float]:
    """What `recbench fetch` makes of a file; seconds; gigabytes of memory at the peak."""
    from recbench.data.dataset import Dataset

    folder.mkdir()
    with served(path.parent) as address:
        write_catalogue(folder, layout, address)
        start = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, "-m", "recbench", "fetch", layout.name],
            cwd=folder, env=os.environ | {"RECBENCH_HOME": str(folder / "home")},
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert process.stderr is not None
        said = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        took = time.perf_counter() - start
    assert status == 0, said
    (prepared,) = (folder / "home" / "prepared").glob("*.parquet")
    return Dataset.load(prepared), took, usage.ru_maxrss / 1e6


def check_sample(layout: Any, data: Any, rows: list[Row]) -> str:
    """Stop if anything differs from the loops; else say what was compared."""
    from test_strong import STAGES, literal, pairs, parts_of

    from recbench.splits.strong import Strong

    kept, heldout = by_loops(layout, rows), data.n_users // 10
    users, items = data.user_ids.to_pylist(), data.item_ids.to_pylist()
    prepared = [(users[u], items[i]) for u, i in zip(data.user, data.item, strict=True)]
    assert prepared == [row[:2] for row in kept], "prepared rows differ"
    split, expected = Strong(heldout).apply(data), literal(kept, heldout)
    assert [items[i] for i in split.items] == expected["unique_sid"], "items differ"
    rows_of_train = np.arange(split.train.shape[0])
    assert pairs(split.train, rows_of_train) == sorted(expected["train"]), "train differs"
    position = np.random.RandomState(98765).permutation(data.n_users).argsort()
    for stage, part in zip(STAGES, parts_of(split), strict=True):
        asked, numbers = expected[f"{stage}_te"], position[part.users]
        finding = {user for user, _ in asked}
        shown = [row for row in expected[f"{stage}_tr"] if row[0] in finding]
        assert pairs(part.target, numbers) == sorted(asked), f"{stage}: to find"
        assert pairs(part.history, numbers) == sorted(shown), f"{stage}: shown"
    sizes = ", ".join(f"{name} {len(found):,}" for name, found in expected.items())
    return f"{data.shape_text}; {sizes}"


def run(layout: Any, size: float, folder: Path) -> None:
    path, small = folder / layout.file, folder / "small" / layout.file
    small.parent.mkdir()
    users, rows = int(layout.users * size), int(layout.rows * size)
    tally = Tally(layout, [])
    layout.write(path, tally.watch(layout.ratings(users, rows)))
    expected = tally.expected()
    print(f"{layout.name}: {rows:,} rows in {path.stat().st_size / 1e6:,.0f} MB", flush=True)
    data, took, peak = fetch(folder / "full", layout, path)
    assert (data.n_users, data.n_items, len(data)) == expected, (data.shape_text, expected)
    print(
        f"  all: {took:.1f} s, peak {peak:.2f} GB; {data.shape_text}, as NumPy counts", flush=True
    )
    sampled = layout.sample(path, small)
    data, _, _ = fetch(folder / "sample", layout, small)
    print(f"  every {SAMPLE}th user, as by loops: {check_sample(layout, data, sampled)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", default=",".join(LAYOUTS), help="layouts, separated by commas")
    parser.add_argument(
        "--size",
        type=float,
        default=1.0,
        help="1: as many rows as the originals; below 0.5 the sample may be too small",
    )
    parser.add_argument("--folder", type=Path, help="where to write; 5 GB and more")
    options = parser.parse_args()
    for name in options.only.split(","):
        with tempfile.TemporaryDirectory(dir=options.folder, prefix="recbench-") as folder:
            run(LAYOUTS[name], options.size, Path(folder))


if __name__ == "__main__":
    main()
