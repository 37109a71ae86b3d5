"""Made-up files in the full layout of the real ones, of any size, for bench/readers.py."""

import gzip
import io
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

SECOND_FROM, SECOND_TO = 1_100_000_000, 1_400_000_000
BATCH = 1 << 19
DICE = np.random.default_rng(0)
Texts = pa.Array
Made = tuple[list[Path], dict[str, Any]]


def batches(rows: int) -> Iterator[tuple[int, int]]:
    """Cut a number of rows into (start, count)."""
    for start in range(0, rows, BATCH):
        yield start, min(BATCH, rows - start)


def text_of(table: pa.Table, delimiter: str = ",") -> bytes:
    sink = pa.BufferOutputStream()
    options = csv.WriteOptions(include_header=False, delimiter=delimiter, quoting_style="none")
    csv.write_csv(table, sink, options)
    return sink.getvalue().to_pybytes()


def lines_of(*pieces: Any) -> bytes:
    """Join columns and constants into lines."""
    text = pc.binary_join_element_wise(*pieces, "\n", "")
    return text.buffers()[2].to_pybytes()


def ascending(start: int, count: int, rows: int, distinct: int) -> np.ndarray:
    """The user of each row where a user's rows stand together."""
    return (np.arange(start, start + count) * distinct) // rows


def popular(count: int, distinct: int) -> np.ndarray:
    """Items, some far more often than others."""
    return (distinct * DICE.random(count) ** 3).astype(np.int64)


def ratings(rows: int) -> Iterator[bytes]:
    yield b"userId,movieId,rating,timestamp\n"
    for start, count in batches(rows):
        yield text_of(
            pa.table(
                {
                    "user": ascending(start, count, rows, max(1, rows // 144)) + 1,
                    "item": popular(count, 131_262) + 1,
                    "value": DICE.integers(1, 11, count) / 2,
                    "time": DICE.integers(SECOND_FROM, SECOND_TO, count),
                }
            )
        )


def make_ml20m(folder: Path, rows: int) -> Made:
    path = folder / "ml-20m.zip"
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("ml-20m/ratings.csv", "w", force_zip64=True) as member,
    ):
        for piece in ratings(rows):
            member.write(piece)
    columns = {"user": "userId", "item": "movieId", "value": "rating", "time": "timestamp"}
    return [path], {"member": "ml-20m/ratings.csv", "columns": columns}


def make_csv(folder: Path, rows: int) -> Made:
    path = folder / "ratings.csv"
    with path.open("wb") as file:
        file.writelines(ratings(rows))
    columns = {"user": "userId", "item": "movieId", "value": "rating", "time": "timestamp"}
    return [path], {"columns": columns}


def make_msd(folder: Path, rows: int) -> Made:
    path = folder / "train_triplets.txt.zip"
    users = pa.array([DICE.bytes(20).hex() for _ in range(max(1, rows // 47))])
    songs = pa.array([f"SO{DICE.bytes(8).hex().upper()}" for _ in range(384_546)])
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("train_triplets.txt", "w", force_zip64=True) as member,
    ):
        for start, count in batches(rows):
            user = users.take(pa.array(ascending(start, count, rows, len(users))))
            item = songs.take(pa.array(popular(count, len(songs))))
            plays = pa.array(DICE.geometric(0.5, count))
            member.write(text_of(pa.table({"u": user, "i": item, "v": plays}), "\t"))
    return [path], {
        "delimiter": "tab",
        "header": "no",
        "columns": {"user": 0, "item": 1, "value": 2},
    }


def movie_text(movie: int, count: int) -> bytes:
    days = pa.array(DICE.integers(10_592, 13_148, count).astype(np.int32)).cast(pa.date32())
    users = DICE.integers(1, 2_649_430, count)
    table = pa.table({"u": users, "r": DICE.integers(1, 6, count), "d": days})
    return b"%d:\n" % movie + text_of(table)


def make_netflix(folder: Path, rows: int) -> Made:
    path, inner = folder / "nf_prize_dataset.tar.gz", folder / "training_set.tar"
    movies = 17_770
    with tarfile.open(inner, "w") as archive:
        for movie in DICE.permutation(movies) + 1:
            text = movie_text(int(movie), rows // movies)
            info = tarfile.TarInfo(f"training_set/mv_{movie:07}.txt")
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text))
    with tarfile.open(path, "w:gz", compresslevel=1) as archive:
        archive.add(inner, "download/training_set.tar")
    inner.unlink()
    return [path], {}


def filler(count: int) -> Texts:
    """Reviews: a few hundred bytes each, of words."""
    words = np.array(["the", "game", "is", "really", "good", "and", "again", "with", "friends\\n"])
    some = [" ".join(words[DICE.integers(0, len(words), n)]) for n in DICE.integers(5, 150, 4096)]
    return pa.array(some).take(pa.array(DICE.integers(0, len(some), count)))


def numbers(low: int, high: int, count: int) -> Texts:
    return pa.array(DICE.integers(low, high, count)).cast(pa.string())


def dates(count: int) -> Texts:
    return (
        pa.array(DICE.integers(14_600, 17_500, count).astype(np.int32))
        .cast(pa.date32())
        .cast(pa.string())
    )


def write_lines(opened: BinaryIO, rows: int, pieces: Callable[[int], list[Any]]) -> None:
    with opened as file:
        file.writelines(lines_of(*pieces(count)) for _, count in batches(rows))


def make_steam(folder: Path, rows: int) -> Made:
    def pieces(count: int) -> list[Any]:
        name, game = numbers(0, max(2, rows // 3), count), numbers(10, 15_484, count)
        head = ["{u'username': u'Player ", name, "', u'hours': 0.1, u'product_id': u'", game]
        return [*head, "', u'date': u'", dates(count), "', u'text': u'", filler(count), "'}"]

    path = folder / "steam_reviews.json.gz"
    write_lines(gzip.GzipFile(path, "wb", compresslevel=1), rows, pieces)
    return [path], {}


def make_amazon(folder: Path, rows: int) -> Made:
    def pieces(count: int) -> list[Any]:
        user, item = (
            numbers(10**9, 10**9 + rows // 8 + 1, count),
            numbers(10**8, 10**8 + 63_001, count),
        )
        head = [
            '{"reviewerID": "A',
            user,
            '", "asin": "B',
            item,
            '", "helpful": [3, 3], "reviewText": "',
        ]
        stars, time = numbers(1, 6, count), numbers(SECOND_FROM, SECOND_TO, count)
        return [*head, filler(count), '", "overall": ', stars, '.0, "unixReviewTime": ', time, "}"]

    path = folder / "reviews_Electronics_5.json.gz"
    write_lines(gzip.GzipFile(path, "wb", compresslevel=1), rows, pieces)
    return [path], {}


def make_yelp(folder: Path, rows: int) -> Made:
    def pieces(count: int) -> list[Any]:
        user, item = numbers(0, rows // 4 + 1, count), numbers(0, 150_346, count)
        head = [
            '{"review_id":"KU_O5udG6zpxOg-VcAEodg","user_id":"u',
            user,
            '","business_id":"b',
            item,
        ]
        tail = ['.0,"text":"', filler(count), '","date":"', dates(count), ' 22:09:11"}']
        return [*head, '","stars":', numbers(1, 6, count), *tail]

    path, packed, text = folder / "Yelp-JSON.zip", folder / "packed", folder / "text"
    write_lines(text.open("wb"), rows, pieces)
    with tarfile.open(packed, "w:gz", compresslevel=1) as archive:
        archive.add(text, "yelp_academic_dataset_review.json")
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(packed, "Yelp JSON/yelp_dataset.tar")
    text.unlink()
    packed.unlink()
    return [path], {}


def make_jsonl(folder: Path, rows: int) -> Made:
    def pieces(count: int) -> list[Any]:
        return [
            '{"user": ',
            numbers(0, rows // 99, count),
            ', "item": "i',
            numbers(0, 50_000, count),
            '"}',
        ]

    path = folder / "mine.jsonl"
    write_lines(path.open("wb"), rows, pieces)
    return [path], {}


def make_adjacency(folder: Path, rows: int) -> Made:
    paths = [folder / "train.txt", folder / "test.txt"]
    for path, share in zip(paths, (0.8, 0.2), strict=True):
        users = max(1, rows // 57)
        counts = DICE.poisson(share * rows / users, users)
        items = iter(DICE.integers(0, 91_599, counts.sum()).tolist())
        with path.open("w", encoding="ascii") as file:
            for user, count in enumerate(counts.tolist()):
                file.write(" ".join(map(str, [user, *(next(items) for _ in range(count))])) + "\n")
    return paths, {"parts": ["train", "test"]}


def make_parquet(folder: Path, rows: int) -> Made:
    import pyarrow.parquet as pq

    path = folder / "mine.parquet"
    user = ascending(0, rows, rows, max(1, rows // 144))
    item = pa.array(popular(rows, 131_262)).cast(pa.string())
    pq.write_table(pa.table({"user": user, "item": item, "stars": DICE.random(rows)}), path)
    return [path], {"columns": {"value": "stars"}}


DUMP = """/*M!999999\\- enable the sandbox mode */
CREATE TABLE `{table}` (
{columns}
  PRIMARY KEY (`{first}`)
) ENGINE=InnoDB DEFAULT CHARSET=binary;

"""


def write_dump(
    folder: Path, table: str, columns: list[str], rows: Iterator[tuple[Any, ...]]
) -> Path:
    """Write a table as mysqldump does, about a megabyte a statement."""
    path = folder / f"simplewiki-20250101-{table}.sql.gz"
    names = "\n".join(f"  `{name}` int(8) NOT NULL," for name in columns)
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(DUMP.format(table=table, columns=names, first=columns[0]).encode())
        for pieces in rows:
            text = pc.binary_join_element_wise("(", *pieces, "),", "").buffers()[2].to_pybytes()
            file.write(b"INSERT INTO `" + table.encode() + b"` VALUES " + text[:-1] + b";\n")
    return path


def make_wikipedia(folder: Path, rows: int) -> Made:
    pages = max(10, rows // 50)
    rest = "',0,0,0.77,'20260901120458','20260901120939',1,2,'wikitext',NULL"

    def ids(total: int, step: int) -> Iterator[Texts]:
        for start in range(0, total, step):
            yield pa.array(np.arange(start, min(start + step, total)) + 1).cast(pa.string())

    def linked(row: Texts) -> tuple[Any, ...]:
        user = ascending(int(row[0].as_py()) - 1, len(row), rows, pages) + 1
        return pa.array(user).cast(pa.string()), ",0,", numbers(1, 2 * pages, len(row))

    page = ((text, ",0,'Page_number\\'_", text, rest) for text in ids(pages, 10_000))
    target = ((text, ",0,'Page_number\\'_", text, "'") for text in ids(2 * pages, 20_000))
    links = (linked(text) for text in ids(rows, 65_536))
    columns = ["page_id", "page_namespace", "page_title", "page_is_redirect", *"abcdefgh"]
    return [
        write_dump(folder, "page", columns, page),
        write_dump(folder, "linktarget", ["lt_id", "lt_namespace", "lt_title"], target),
        write_dump(folder, "pagelinks", ["pl_from", "pl_from_namespace", "pl_target_id"], links),
    ], {}


MAKERS: dict[str, tuple[str, int, Callable[[Path, int], Made]]] = {
    "csv": ("delimited", 20_000_263, make_csv),
    "ml-20m": ("delimited", 20_000_263, make_ml20m),
    "msd": ("delimited", 48_373_586, make_msd),
    "netflix": ("netflix", 100_480_507, make_netflix),
    "steam": ("steam", 7_793_069, make_steam),
    "amazon-json": ("amazon-json", 1_689_188, make_amazon),
    "yelp": ("yelp", 6_990_280, make_yelp),
    "jsonl": ("jsonl", 10_000_000, make_jsonl),
    "adjacency": ("adjacency", 2_984_108, make_adjacency),
    "parquet": ("parquet", 20_000_263, make_parquet),
    "wikipedia": ("wikipedia", 20_000_000, make_wikipedia),
}
"""A layout: its reader, the rows of the real file, and how to make one up."""
