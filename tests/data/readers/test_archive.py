import gzip
import io
import stat
import tarfile
import zipfile

import pytest
import raw
from hypothesis import given, settings
from hypothesis import strategies as st

from recbench.data.readers import archive
from recbench.data.readers.archive import Limits, chosen, matcher, members
from recbench.data.readers.streams import Gunzip, read_full
from recbench.errors import DataError

TEXT = b"1,2\n3,4\n"
LIMITS = Limits()


def read_all(path, wanted=lambda name: True, limits=LIMITS):
    """Every wanted member of a path: its name and its bytes."""
    return {
        member.name: read_full(member.stream, 1 << 30) for member in members(path, limits, wanted)
    }


def put(folder, name, text):
    path = folder / name
    path.write_bytes(text)
    return path


LAYERS = {
    "plain.csv": TEXT,
    "packed.csv.gz": gzip.compress(TEXT),
    "two-members.csv.gz": gzip.compress(TEXT[:4]) + gzip.compress(TEXT[4:]),
    "padded.csv.gz": gzip.compress(TEXT) + b"\0" * 700_000,
    "a.zip": raw.zip_of({"plain.csv": TEXT}),
    "stored.zip": raw.zip_of({"plain.csv": TEXT}, zipfile.ZIP_STORED),
    "a.tar": raw.tar_of({"plain.csv": TEXT}),
    "ustar.tar": raw.tar_of({"plain.csv": TEXT}, kind=tarfile.USTAR_FORMAT),
    "pax.tar": raw.tar_of({"plain.csv": TEXT}, kind=tarfile.PAX_FORMAT),
    "a.tar.gz": raw.tar_of({"plain.csv": TEXT}, "w:gz"),
    "tar-in-tar.tgz": raw.tar_of({"inner.tar": raw.tar_of({"plain.csv": TEXT})}, "w:gz"),
    "gz-in-zip.zip": raw.zip_of({"plain.csv.gz": gzip.compress(TEXT)}),
    "tgz-in-zip.zip": raw.zip_of({"x.tar": raw.tar_of({"plain.csv": TEXT}, "w:gz")}),
    "no-suffix": gzip.compress(raw.tar_of({"plain.csv": TEXT})),
}


@pytest.mark.parametrize("name", LAYERS)
def test_every_layer_comes_apart(tmp_path, name):
    found = read_all(put(tmp_path, name, LAYERS[name]))
    assert list(found.values()) == [TEXT]


@pytest.mark.parametrize("kind", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT, tarfile.USTAR_FORMAT])
def test_long_names_and_many_members(tmp_path, kind):
    files = {f"{'folder/' * 20}{number}-é.txt": b"x" * number for number in range(0, 1600, 97)}
    if kind == tarfile.USTAR_FORMAT:
        files = {name.replace("é", "e"): text for name, text in files.items()}
    assert read_all(put(tmp_path, "a.tar", raw.tar_of(files, kind=kind))) == files


def test_a_member_that_is_not_read_is_passed_over(tmp_path):
    path = put(tmp_path, "a.tar", raw.tar_of({"a": b"x" * 5000, "b": b"yy", "c": b""}))
    names = [member.name for member in members(path, LIMITS, lambda name: name != "b")]
    assert names == ["a", "c"]


def test_a_folder_is_searched(tmp_path):
    (tmp_path / "in").mkdir()
    put(tmp_path / "in", "b.txt", b"b")
    put(tmp_path / "in", "a.tar", raw.tar_of({"x/c.txt": b"c"}))
    put(tmp_path / "in", "other", b"?")
    assert read_all(tmp_path / "in", matcher("*.txt")) == {"x/c.txt": b"c", "b.txt": b"b"}


@pytest.mark.parametrize(
    ("pattern", "name", "fits"),
    [
        ("ratings.csv", "ml-20m/ratings.csv", True),
        ("ml-20m/ratings.csv", "ml-20m/ratings.csv", True),
        ("ratings.csv", "ml-20m/my-ratings.csv", False),
        ("*/ratings.dat", "a/b/ratings.dat", True),
        ("x/ratings.csv", "ml-20m/ratings.csv", False),
        ("mv_*.txt", "training_set/mv_0000001.txt", True),
    ],
)
def test_patterns(pattern, name, fits):
    assert matcher(pattern)(name) is fits


def test_an_archive_of_several_files_asks_which(tmp_path):
    path = put(
        tmp_path, "a.zip", raw.zip_of({"a.csv": TEXT, "b.csv": TEXT, "__MACOSX/._a.csv": b"?"})
    )
    with pytest.raises(
        DataError, match=r"a.zip holds 'a.csv', 'b.csv': choose one with .*'member'"
    ):
        chosen(None, path, LIMITS)
    with pytest.raises(DataError, match=r"none of the files wanted; it holds 'a.csv', 'b.csv'$"):
        read_all(path, chosen("c.csv", path, LIMITS))


def broken(name, text, says):
    return pytest.param(name, text, says, id=name)


def with_byte(text, at, value):
    return text[:at] + bytes([value]) + text[at + 1 :]


TWO = raw.tar_of({"a.csv": b"a" * 600, "b.csv": b"b" * 600})
TWICE = raw.tar_of({"./a": b"other"})
NAMELESS = bytes(6).join(raw.zip_of({"abcdef": TEXT}).rsplit(b"abcdef", 1))
ENCRYPTED = with_byte(
    with_byte(raw.zip_of({"a.csv": TEXT}), 6, 1),
    raw.zip_of({"a.csv": TEXT}).index(b"PK\x01\x02") + 8,
    1,
)


def zipped_link():
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w") as archive:
        info = zipfile.ZipInfo("a.csv")
        info.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(info, "/etc/passwd")
    return sink.getvalue()


def nested(layers):
    text = TEXT
    for _ in range(layers):
        text = gzip.compress(text)
    return text


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        broken("short.gz", gzip.compress(TEXT)[:-9], "is cut short: the gzip stream has no end"),
        broken("crc.gz", with_byte(gzip.compress(TEXT), -8, 0), "incorrect data check"),
        broken("tail.gz", gzip.compress(TEXT) + b"more", "is damaged: other bytes follow"),
        broken("deep.gz", nested(6), "is packed more than 4 times over"),
        broken("short.zip", raw.zip_of({"a": TEXT})[:-9], "is damaged or cut short"),
        broken("crc.zip", raw.zip_of({"a": TEXT}, 0).replace(b"1,2", b"1,3"), "Bad CRC-32"),
        broken("encrypted.zip", ENCRYPTED, "a.csv is an encrypted file, which cannot be read"),
        broken("link.zip", zipped_link(), "a.csv is a symbolic link, which cannot be read"),
        broken("bzip2.zip", raw.zip_of({"a": TEXT}, zipfile.ZIP_BZIP2), "packed in a way other"),
        broken("up.zip", raw.zip_of({"../../x": TEXT}), "which points outside the archive"),
        broken("root.zip", raw.zip_of({"/etc/x": TEXT}), "which points outside the archive"),
        broken("drive.zip", raw.zip_of({"C:\\x": TEXT}), "which points outside the archive"),
        broken("up.tar", raw.tar_of({"a/../../x": TEXT}), "which points outside the archive"),
        broken("root.tar", raw.tar_of({"/etc/x": TEXT}), "which points outside the archive"),
        broken("link.tar", raw.tar_entry("a", b"2", "/etc/passwd"), "is a symbolic link"),
        broken("hard.tar", raw.tar_entry("a", b"1", "b"), "is a hard link"),
        broken("device.tar", raw.tar_entry("a", b"3"), "is a device"),
        broken("pipe.tar", raw.tar_entry("a", b"6"), "is a pipe"),
        broken("odd.tar", raw.tar_entry("a", b"Z"), "is a special file"),
        broken("short.tar", TWO[:700], "is cut short"),
        broken("no-end.tar", TWO[: 2 * (512 + 1024)], "is cut short: the archive has no end"),
        broken("header.tar", with_byte(TWO, 512 + 1024, 0xFF), "does not match its checksum"),
        broken("hole.tar", TWO[:1536] + bytes(512) + TWO[1536:], "more follows a block of zeros"),
        broken("two.tar", TWO + TWO, "more follows a block of zeros, which ends a tar"),
        broken("junk.tar", TWO + b"junk", "more follows a block of zeros"),
        broken("hole.tgz", gzip.compress(TWO[:1536] + bytes(512) + TWO[1536:]), "more follows"),
        broken("twice.tar", raw.tar_of({"a": TEXT})[:1024] + TWICE, "'./a' twice; keep one"),
        broken("two.zip", raw.zip_of({"a": TEXT}) + raw.zip_of({"b": TEXT}), "more than one zip"),
        broken("7z", b"7z\xbc\xaf\x27\x1c....", "is packed with 7-Zip; unpack it first"),
        broken("xz", b"\xfd7zXZ\0....", "is packed with xz; unpack it first"),
        broken("zip.tar", raw.tar_of({"a.zip": raw.zip_of({"a": TEXT})}), "is packed with zip"),
        broken("nameless.zip", NAMELESS, "is damaged or cut short: File name in directory"),
        broken("folder.tar", raw.tar_entry("only", b"5"), "files wanted; it holds no files"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_one_sentence(tmp_path, name, text, says):
    path = put(tmp_path, name, text)
    with pytest.raises(DataError, match=says) as caught:
        read_all(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_name_that_comes_twice_in_a_zip(tmp_path):
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w") as archive:
        archive.writestr("a.csv", TEXT)
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("a.csv", TEXT)
    with pytest.raises(DataError, match=r"holds 'a.csv' twice; keep one of them"):
        read_all(put(tmp_path, "a.zip", sink.getvalue()))


def test_one_name_in_two_archives_is_two_files(tmp_path):
    inner = raw.tar_of({"a.csv": TEXT})
    path = put(tmp_path, "a.tar", raw.tar_of({"x.tar": inner, "y.tar": inner}))
    assert [member.name for member in members(path, LIMITS, lambda _: True)] == ["a.csv"] * 2


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(DataError, match=r"nothing.csv cannot be read: No such file"):
        read_all(tmp_path / "nothing.csv")


def test_an_empty_folder(tmp_path):
    with pytest.raises(DataError, match="it holds no files"):
        read_all(tmp_path)


def header_with_size(size):
    """A tar header whose checksum is right and whose size field is what we want."""
    block = bytearray(raw.tar_of({"a": b""})[:512])
    block[124:136] = size
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (header_with_size(b"77777777777\0"), "is cut short: 8,589,934,591 bytes are missing"),
        (header_with_size(b"\xff" * 12), "has no valid size"),
        (header_with_size(b"99999999999\0"), "has no valid size"),
        (raw.tar_entry("x", b"x", text=b"9" * 70_000), "claims 70,000 bytes"),
        (raw.tar_entry("x", b"x", text=b"99 path=a\n"), "extended tar header cannot be read"),
        (raw.tar_entry("x", b"x", text=b"0 path=a\n"), "extended tar header cannot be read"),
        (raw.tar_entry("x", b"x", text=b"rubbish"), "extended tar header cannot be read"),
    ],
)
def test_headers_that_lie(tmp_path, text, says):
    with pytest.raises(DataError, match=says):
        read_all(put(tmp_path, "a.tar", text))


def test_a_size_too_large_for_octal_is_understood(tmp_path):
    size = b"\x80" + (5).to_bytes(11, "big")
    text = header_with_size(size) + b"hello".ljust(512, b"\0") + bytes(1024)
    assert read_all(put(tmp_path, "a.tar", text)) == {"a": b"hello"}


def test_an_unwanted_link_harms_nobody(tmp_path):
    text = raw.tar_entry("latest", b"2", "b")[:512] + raw.tar_of({"b.csv": TEXT})
    assert read_all(put(tmp_path, "a.tar", text), matcher("*.csv")) == {"b.csv": TEXT}


@pytest.fixture
def cautious(monkeypatch):
    """Suspect files from a megabyte on, so that bombs may be small."""
    monkeypatch.setattr(archive, "HARMLESS", 1 << 20)


def test_bombs_are_refused_by_ratio(tmp_path, cautious):
    zeros = bytes(5 << 20)
    for name, text in [("a.gz", gzip.compress(zeros)), ("a.zip", raw.zip_of({"a": zeros}))]:
        with pytest.raises(DataError, match="unpacks to more than 200 times its size"):
            read_all(put(tmp_path, name, text))


def test_bombs_are_refused_when_skipped_over(tmp_path, cautious):
    text = gzip.compress(raw.tar_of({"bomb": bytes(5 << 20), "a.csv": TEXT}))
    with pytest.raises(DataError, match="unpacks to more than 200 times its size"):
        read_all(put(tmp_path, "a.tgz", text), matcher("a.csv"))


def test_what_unpacks_is_limited(tmp_path):
    path = put(tmp_path, "a.gz", gzip.compress(bytes(5_000_000)))
    with pytest.raises(DataError, match=r"more than the limit of 4,000,000 bytes"):
        read_all(path, limits=Limits(max_bytes=4_000_000))


def test_regular_text_is_no_bomb(tmp_path):
    path = put(tmp_path, "a.gz", gzip.compress(b"1,2\n" * 300_000))
    assert len(read_all(path)["a"]) == 1_200_000


@settings(deadline=None)
@given(st.lists(st.binary(max_size=300), max_size=5), st.integers(1, 50))
def test_gunzip_is_the_inverse_of_gzip(texts, size):
    stream = Gunzip(io.BytesIO(b"".join(map(gzip.compress, texts))), "x", lambda count: None)
    if not texts:
        with pytest.raises(DataError, match="has no end"):
            stream.read(size)
        return
    pieces = iter(lambda: stream.read(size), b"")
    assert b"".join(pieces) == b"".join(texts)


@settings(deadline=None)
@given(st.binary(min_size=1, max_size=200), st.data())
def test_a_cut_gzip_stream_never_ends_well(text, data):
    packed = gzip.compress(text)
    cut = data.draw(st.integers(0, len(packed) - 1))
    stream = Gunzip(io.BytesIO(packed[:cut]), "x", lambda count: None)
    with pytest.raises(DataError):
        read_full(stream, 1 << 20)


def test_unpacking_holds_little_at_a_time():
    sizes = []
    stream = Gunzip(io.BytesIO(gzip.compress(bytes(5 << 20))), "x", sizes.append)
    while stream.read(1 << 30):
        pass
    assert sum(sizes) == 5 << 20
    assert max(sizes) <= 1 << 20
