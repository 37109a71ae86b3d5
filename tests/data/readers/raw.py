"""Small files in the exact layout of the real ones: members, headers, delimiters, packing.

Rows are made up; everything around them is as the sources publish it.
"""

import gzip
import io
import random
import tarfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mutations
import pyarrow as pa
import pyarrow.parquet as pq


def tar_of(files: Mapping[str, bytes], mode: str = "w", kind: int = tarfile.GNU_FORMAT) -> bytes:
    """Pack files as `tar` does."""
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode=mode, format=kind) as archive:
        for name, text in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text))
    return sink.getvalue()


def tar_entry(name: str, kind: bytes, target: str = "", text: bytes = b"") -> bytes:
    """A tar of one entry of an unusual kind."""
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w") as archive:
        info = tarfile.TarInfo(name)
        info.type, info.linkname, info.size = kind, target, len(text)
        archive.addfile(info, io.BytesIO(text))
    return sink.getvalue()


def zip_of(files: Mapping[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Pack files as `zip` does."""
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", method) as archive:
        for name, text in files.items():
            archive.writestr(zipfile.ZipInfo(name), text, method)
    return sink.getvalue()


RATINGS = """userId,movieId,rating,timestamp
1,2,3.5,1112486027
1,151,4.0,1094785734
1,223,4.0,1112485573
138493,71621,4.5,1255816373
"""
ML20M = {
    "ml-20m/README.txt": b"Summary\n",
    "ml-20m/ratings.csv": RATINGS.encode(),
    "ml-20m/movies.csv": b"movieId,title,genres\n1,Toy Story (1995),Adventure\n",
}
ML10M = {
    "ml-10M100K/movies.dat": b"1::Toy Story (1995)::Adventure|Children\n",
    "ml-10M100K/ratings.dat": b"1::122::5::838985046\n1::185::3.5::838983525\n",
}
ML100K = b"196\t242\t3\t881250949\n186\t302\t3\t891717742\n"
MSD = (
    b"b80344d063b5ccb3212f76538f3d9e43d87dca9e\tSOAKIMP12A8C130995\t1\n"
    b"b80344d063b5ccb3212f76538f3d9e43d87dca9e\tSOBBMDR12A8C13253B\t2\n"
    b"85c1f87fea955d09b4bec2e36aee110927aedf9a\tSOAKIMP12A8C130995\t12\n"
)
GOWALLA = (
    b"0\t2010-10-19T23:55:27Z\t30.2359091167\t-97.7951395833\t22847\n"
    b"0\t2010-10-18T22:17:43Z\t30.2691029532\t-97.7493953705\t420315\n"
    b"7\t2010-10-17T23:42:03Z\t130.255\t-97.7633857727\t316637\n"
)
AMAZON_CSV = b"A39HTATAQ9V7YF,0205616461,5.0,1369699200\nA3JM6GV9MNOF9X,B000052YB6,3.0,1355443200\n"
LASTFM = b"userID\tartistID\tweight\r\n2\t51\t13883\r\n2\t52\t11690\r\n"
YOOCHOOSE = b"1,2014-04-07T10:51:09.277Z,214536502,0\n1,2014-04-07T10:54:09.868Z,214536500,S\n"

MOVIES = {
    "training_set/mv_0000003.txt": b"3:\n1488844,4,2005-09-06\n",
    "training_set/mv_0000001.txt": b"1:\n1488844,3,2005-09-06\n822109,5,2005-05-13\n",
    "training_set/mv_0017770.txt": b"17770:\n7,1,1999-11-11\n2649429,2,2005-12-31\n",
}
"""In the order a tar may have them: not by number."""
COMBINED = (
    MOVIES["training_set/mv_0000001.txt"] + MOVIES["training_set/mv_0000003.txt"],
    MOVIES["training_set/mv_0017770.txt"],
)


def netflix_archive(movies: Mapping[str, bytes]) -> bytes:
    """A tar in a gzip'd tar, beside the titles and the rest."""
    return tar_of(
        {
            "download/movie_titles.txt": "1,2003,Dinosaur Planet, the caf\xe9\n".encode("latin-1"),
            "download/training_set.tar": tar_of(movies),
            "download/probe.txt": b"1:\n30878\n",
        },
        "w:gz",
    )


STEAM = (
    rb"{u'username': u'Chaos Syren', u'hours': 0.1, u'products': 41, u'product_id': u'725280', "
    rb"u'page_order': 0, u'date': u'2017-12-17', u'text': u'It\'s 5, "
    rb'"good": {\n}'
    b"', u'early_access': False, u'page': 1}\n"
    rb"""{u'username': u"O'Neil \xe9\u2605", u'hours': 51.1, u'product_id': u'328100', """
    rb"u'date': u'2017-12-27', u'user_id': u'76561198007483075', u'compensation': u'Product "
    b"received for free', u'found_funny': 2, u'early_access': True, u'page': 1}\n"
    rb"{u'username': u'', u'product_id': u'328100', u'page_order': 3, u'date': u'2018-01-04', "
    b"u'text': u'', u'page': 1}\n"
)
AMAZON_JSON = (
    rb'{"reviewerID": "A3BY5KCNQZXV5U", "asin": "0594451647", "reviewerName": "Ma\"ten\u00e9", '
    rb'"helpful": [3, 3], "reviewText": "Works {fine}, '
    rb"['really']"
    b'", "overall": 5.0, "summary": "ok", "unixReviewTime": 1390176000, '
    b'"reviewTime": "01 20, 2014"}\n'
    b'{"overall": 4.0, "verified": true, "reviewTime": "09 4, 2015", "reviewerID": "A2MJ", '
    b'"asin": "B001", "style": {"Color:": " Red"}, "unixReviewTime": 1441324800}\n'
)
AMAZON_PYTHON = (
    b"{'reviewerID': 'A3BY5KCNQZXV5U', 'asin': '0594451647', "
    rb"""'reviewText': "It's \xe9", 'helpful': [3, 3], """
    b"'overall': 5.0, 'unixReviewTime': 1390176000}\n"
    b"{'reviewerID': 'A2MJ', 'asin': 'B001', 'overall': 4.0, 'verified': True, "
    b"'unixReviewTime': 1441324800}\n"
)
YELP = (
    b'{"review_id":"KU_O5udG6zpxOg-VcAEodg","user_id":"mh_-eMZ6K5RLWhZyISBhwA",'
    b'"business_id":"XQfwVwDr-v0ZS3_CbbE5Xw","stars":3.0,"useful":0,"funny":0,"cool":0,'
    rb'"text":"If you \"like\" it:\n{no}","date":"2018-07-07 22:09:11"}'
    b"\n"
    b'{"review_id":"BiTunyQ73aT9WBnpR9DZGw","user_id":"OyoGAe7OKpv6SyGZT5g77Q",'
    b'"business_id":"7ATYjTIgM3jUlt4UM3IypQ","stars":5.0,"useful":1,"funny":0,"cool":1,'
    b'"text":"","date":"2012-01-03 15:28:18"}\n'
)


def yelp_archive(reviews: bytes) -> bytes:
    """A zip with clutter and a tar that is gzip'd although its name does not say so."""
    packed = tar_of(
        {
            "yelp_academic_dataset_business.json": b'{"business_id":"x"}\n',
            "yelp_academic_dataset_review.json": reviews,
        },
        "w:gz",
    )
    return zip_of(
        {
            "Yelp JSON/Yelp Dataset Agreement.pdf": b"%PDF-1.4\0\x01",
            "Yelp JSON/yelp_dataset.tar": packed,
            "__MACOSX/Yelp JSON/._yelp_dataset.tar": b"\0\x05\x16\x07",
        }
    )


DUMP = rb"""/*M!999999\- enable the sandbox mode */
-- MariaDB dump 10.19
--
DROP TABLE IF EXISTS `%(table)s`;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `%(table)s` (
%(columns)s
  PRIMARY KEY (`%(key)s`),
  KEY `other` (`%(key)s`)
) ENGINE=InnoDB AUTO_INCREMENT=9 DEFAULT CHARSET=binary;
/*!40101 SET character_set_client = @saved_cs_client */;

/*!40000 ALTER TABLE `%(table)s` DISABLE KEYS */;
%(statements)s/*!40000 ALTER TABLE `%(table)s` ENABLE KEYS */;

-- Dump completed on 2025-01-01  3:04:05
"""
COLUMNS = {
    "page": "page_id page_namespace page_title page_is_redirect page_is_new page_random "
    "page_touched page_links_updated page_latest page_len page_content_model page_lang",
    "pagelinks": "pl_from pl_from_namespace pl_target_id",
    "linktarget": "lt_id lt_namespace lt_title",
    "redirect": "rd_from rd_namespace rd_title rd_interwiki rd_fragment",
}
PAGE = rb"%d,%d,'%s',%d,0,0.778582929065,'20260901120458',NULL,10861257,22079,'wikitext',NULL"
TRICKY = rb"It\'s_(a),\\\"b\";"
ROWS = {
    "page": [
        [PAGE % (1, 0, b"April", 0), PAGE % (2, 0, TRICKY, 0)],
        [
            PAGE % (3, 0, b"Redir", 1),
            PAGE % (9, 10, b"Months", 0),
            PAGE % (12, 0, "Łódź".encode(), 0),
        ],
    ],
    "pagelinks": [
        [b"1,0,101", b"1,0,102", b"1,0,103", b"1,0,104", b"1,0,105", b"9,10,101", b"3,0,101"]
    ],
    "linktarget": [
        [
            b"101,0,'" + TRICKY + b"'",
            b"102,0,'Redir'",
            b"103,0,'Red_link'",
            b"104,10,'Months'",
            b"105,0,'April'",
        ]
    ],
    "redirect": [[b"3,0,'%s','',''" % "Łódź".encode(), b"77,0,'April','en',NULL"]],
}


def dump(table: str, statements: Sequence[Sequence[bytes]], glue: bytes = b",") -> bytes:
    """What mysqldump writes of a table; newer servers break lines between the rows."""
    start = b"INSERT INTO `%s` VALUES " % table.encode()
    names = COLUMNS[table].split()
    values = [start + glue.join(b"(%s)" % row for row in rows) + b";\n" for rows in statements]
    return DUMP % {
        b"table": table.encode(),
        b"columns": "\n".join(f"  `{name}` int(8) unsigned NOT NULL," for name in names).encode(),
        b"key": names[0].encode(),
        b"statements": b"".join(values),
    }


LIGHTGCN = {"train.txt": b"0 7580 3730 5983\n1 31613\n2 5 6\n", "test.txt": b"0 12 13\n1 \n2 9\n"}
CITEULIKE = b"2 496 1631\n0\n3 2318 2526 7\n"
MINE = {"user": ["u1", "u2", "u1"], "item": [10, 20, 30], "stars": [1.0, 2.5, 5.0]}
JSON_LINES = (
    b'{"user": "u1", "item": 10, "at": "2020-01-01"}\n'
    b'{"user": "u2", "item": 20, "at": "2020-01-02"}\n'
)


def parquet_of(columns: Mapping[str, Any]) -> bytes:
    """A Parquet file with several row groups."""
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(dict(columns)), sink, row_group_size=2, write_page_checksum=True)
    return sink.getvalue().to_pybytes()


PARQUET = parquet_of(MINE)
Files = Mapping[str, bytes]


def as_they_are(texts: Files) -> Files:
    """Files that are not packed."""
    return texts


def gzipped(texts: Files) -> Files:
    """Each file by itself, with the suffix."""
    return {f"{name}.gz": gzip.compress(text, mtime=0) for name, text in texts.items()}


def zipped_as(name: str) -> Callable[[Files], Files]:
    """All files in one zip of this name."""
    return lambda texts: {name: zip_of(texts)}


@dataclass(frozen=True)
class Sample:
    """Faithful texts, how they are packed, the reader they are for, and its options."""

    reader: str
    texts: Files
    pack: Callable[[Files], Files] = as_they_are
    options: Mapping[str, Any] = field(default_factory=dict)

    def write(self, folder: Path) -> list[Path]:
        """Put the files into a folder."""
        return put(self.pack(self.texts), folder)

    def damaged(self, dice: random.Random) -> Files:
        """The files after one of them, or a text inside of it, was damaged."""
        inside = dice.random() < 0.5
        files = dict(self.texts if inside else self.pack(self.texts))
        victim = dice.choice(sorted(files))
        files[victim] = mutations.mutate(dice, files[victim])
        return self.pack(files) if inside else files


def put(files: Files, folder: Path) -> list[Path]:
    """Write files; return their paths in order."""
    for name, text in files.items():
        (folder / name).write_bytes(text)
    return [folder / name for name in files]


def pack_netflix(texts: Files) -> Files:
    """The archive of ratings, members in an order of its own."""
    return {"nf_prize_dataset.tar.gz": netflix_archive(texts)}


def pack_yelp(texts: Files) -> Files:
    """The zip of the download page."""
    return {"Yelp-JSON.zip": yelp_archive(texts["review.json"])}


WIKI = {f"simplewiki-20250101-{table}.sql": dump(table, rows) for table, rows in ROWS.items()}
FIRST_FOUR = {"user": 0, "item": 1, "value": 2, "time": 3}
BY_NAME = {"user": "userId", "item": "movieId", "value": "rating", "time": "timestamp"}
DAT = {"member": "*/ratings.dat", "delimiter": "::", "header": "no", "columns": FIRST_FOUR}
TRIPLETS = {"delimiter": "tab", "header": "no", "columns": {"user": 0, "item": 1, "value": 2}}
CHECK_INS = {"delimiter": "tab", "columns": {"user": 0, "item": 4, "time": 1}}
SAMPLES = {
    "csv": Sample("delimited", {"r.csv": RATINGS.encode()}, options={"columns": BY_NAME}),
    "ml-20m": Sample(
        "delimited",
        ML20M,
        zipped_as("ml-20m.zip"),
        {"member": "ml-20m/ratings.csv", "columns": BY_NAME},
    ),
    "ml-10m": Sample("delimited", ML10M, zipped_as("ml-10m.zip"), DAT),
    "msd": Sample(
        "delimited", {"train_triplets.txt": MSD}, zipped_as("train_triplets.txt.zip"), TRIPLETS
    ),
    "gowalla": Sample("delimited", {"totalCheckins.txt": GOWALLA}, gzipped, CHECK_INS),
    "netflix": Sample("netflix", MOVIES, pack_netflix),
    "netflix-combined": Sample(
        "netflix",
        {"combined_data_1.txt": COMBINED[0], "combined_data_2.txt": COMBINED[1]},
    ),
    "steam": Sample("steam", {"steam_reviews.json": STEAM}, gzipped),
    "amazon-json": Sample("amazon-json", {"reviews_Games_5.json": AMAZON_JSON}, gzipped),
    "amazon-python": Sample("amazon-json", {"reviews_Games.json": AMAZON_PYTHON}),
    "yelp": Sample("yelp", {"review.json": YELP}, pack_yelp),
    "wikipedia": Sample("wikipedia", WIKI, gzipped, {"resolve-redirects": True}),
    "wikipedia-plain": Sample("wikipedia", WIKI),
    "adjacency": Sample("adjacency", LIGHTGCN, options={"parts": ["train", "test"]}),
    "citeulike-a": Sample("adjacency", {"users.dat": CITEULIKE}, options={"count-first": True}),
    "parquet": Sample("parquet", {"m.parquet": PARQUET}, options={"columns": {"value": "stars"}}),
    "jsonl": Sample("jsonl", {"m.jsonl": JSON_LINES}, options={"columns": {"time": "at"}}),
}
