import ast
import gzip
import io
import json

import pytest
import raw
from hypothesis import given, settings
from hypothesis import strategies as st

from recbench.data.readers import amazon_json, jsonl, lines, records, steam, yelp
from recbench.data.readers.archive import LIMITS, Limits, Member
from recbench.data.readers.cells import CellError
from recbench.data.readers.records import JSON, PYTHON, Records
from recbench.errors import DataError, UsageError

READS = {
    "steam": steam.read,
    "amazon-json": amazon_json.read,
    "yelp": yelp.read,
    "jsonl": jsonl.read,
}


def rows(reader, text, folder, options=None, **limits):
    path = folder / "file.json"
    path.write_bytes(text)
    return listed(READS[reader]([path], options or {}, Limits(**limits)))


def listed(interactions):
    return [tuple(row.values()) for row in interactions.table.to_pylist()]


def day(text):
    from datetime import datetime

    return int(datetime.fromisoformat(f"{text}+00:00").timestamp())


EXACT = {
    "steam": [
        ("Chaos Syren", 725280, day("2017-12-17")),
        ("O'Neil é★", 328100, day("2017-12-27")),
        ("", 328100, day("2018-01-04")),
    ],
    "amazon-json": [
        ("A3BY5KCNQZXV5U", "0594451647", 5.0, 1390176000),
        ("A2MJ", "B001", 4.0, 1441324800),
    ],
    "yelp": [
        ("mh_-eMZ6K5RLWhZyISBhwA", "XQfwVwDr-v0ZS3_CbbE5Xw", 3.0, day("2018-07-07 22:09:11")),
        ("OyoGAe7OKpv6SyGZT5g77Q", "7ATYjTIgM3jUlt4UM3IypQ", 5.0, day("2012-01-03 15:28:18")),
    ],
    "jsonl": [("u1", 10, day("2020-01-01")), ("u2", 20, day("2020-01-02"))],
}
EXACT["amazon-python"] = EXACT["amazon-json"]


@pytest.mark.parametrize("name", EXACT)
def test_faithful_files_give_exact_rows(tmp_path, name):
    sample = raw.SAMPLES[name]
    assert listed(READS[sample.reader](sample.write(tmp_path), sample.options)) == EXACT[name]


def test_yelp_reviews_may_be_unpacked(tmp_path):
    assert rows("yelp", raw.YELP, tmp_path) == EXACT["yelp"]


def test_steam_has_two_identities(tmp_path):
    found = rows("steam", raw.STEAM, tmp_path, {"identity": "user_id"})
    assert found == [(76561198007483075, 328100, day("2017-12-27"))]
    with pytest.raises(
        UsageError, match="unknown value of 'identity' 'userid'; did you mean 'user_id'"
    ):
        rows("steam", raw.STEAM, tmp_path, {"identity": "userid"})


@pytest.mark.parametrize("row", ['{"user": NaN, "item": 3}', '{"user": 3, "item": NaN}'])
@pytest.mark.parametrize("escaped", ["", ', "note": "\\u00e9"'])
def test_not_a_number_is_no_id(tmp_path, row, escaped):
    text = f'{{"user": 1, "item": 2}}\n{row[:-1]}{escaped}}}\n'
    with pytest.raises(DataError, match=r"line 2: there is no (user|item) id"):
        rows("jsonl", text.encode(), tmp_path)


def test_a_word_that_reads_like_it_is_one(tmp_path):
    assert rows("jsonl", b'{"user": "nan", "item": 3}\n', tmp_path) == [("nan", 3)]


def test_rows_left_out_do_not_move_line_numbers(tmp_path):
    text = b"{u'username': u'a', u'product_id': u'1', u'date': u'2017-12-17'}\n" * 2
    text += b"{u'user_id': u'5', u'product_id': u'1', u'date': u'soon'}\n"
    with pytest.raises(DataError, match=r"file.json, line 3: the time 'soon' is not"):
        rows("steam", text, tmp_path, {"identity": "user_id"})


def test_names_that_look_missing_are_names_on_steam(tmp_path):
    line = "{u'username': u'%s', u'product_id': u'1', u'date': u'2017-12-17'}\n"
    text = "".join(line % name for name in ("nan", "NULL", "", "None")).encode()
    assert [name for name, *_ in rows("steam", text, tmp_path)] == ["nan", "NULL", "", "None"]


def test_python_2_writes_some_characters_in_halves(tmp_path):
    line = rb"{u'username': u'\ud83d\ude00 %s', u'product_id': u'1', u'date': u'2017-12-17'}"
    found = rows("steam", line % b"x" + b"\n" + line % rb"\ud83d", tmp_path)
    assert [name for name, *_ in found] == ["😀 x", r"😀 \x3d\xd8"]


@pytest.mark.parametrize("first", [raw.AMAZON_JSON, raw.AMAZON_PYTHON])
def test_amazon_may_mix_json_and_python(tmp_path, first):
    other = raw.AMAZON_PYTHON if first is raw.AMAZON_JSON else raw.AMAZON_JSON
    assert rows("amazon-json", first + b"\n" + other, tmp_path) == EXACT["amazon-json"] * 2


RECORD = '{{"user": {}, "item": {}}}'


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('{"user": 1, "item": 2}', (1, 2)),
        (' \t{ "item" : "2" ,"user":"a" } ', ("a", 2)),
        ('{"user": "a\\u00e9\\/\\"", "item": 2}', ('aé/"', 2)),
        ('{"user": "a", "user": "b", "item": 2}', ("b", 2)),
        ('{"us\\u0065r": "a", "item": 2}', ("a", 2)),
        ('{"x": {"user": "no", "y": [1, "]", {"z": "}"}]}, "user": "a", "item": 2}', ("a", 2)),
        ('{"x": [], "y": {}, "z": [[]], "user": "a", "item": 2}', ("a", 2)),
        ('{"user": "007", "item": -5, "x": 1e-5, "y": -0.5E+3}', ("007", -5)),
        ('{"user": 1.5, "item": 12345678901234567890}', ("1.5", "12345678901234567890")),
        ('{"user": "a", "item": 2, "t": true, "f": false, "n": null, "nan": NaN}', ("a", 2)),
        ('{"user": "é\u2028", "item": "\x7f"}', ("é\u2028", "\x7f")),
        ('{"user": "\\ud83d\\ude00", "item": 2}', ("😀", 2)),
    ],
)
def test_json_lines(tmp_path, line, expected):
    assert rows("jsonl", line.encode(), tmp_path) == [expected]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('{"user": 1, "item": 2', "line 2: this record is cut short or not JSON"),
        ('{"user": 1, "item": 2,}', "cut short or not JSON"),
        ('{"user": 1, "item": 2}}', "cut short or not JSON"),
        ('{"user": 1 "item": 2}', "cut short or not JSON"),
        ('{"user": 1, "item": 02}', "cut short or not JSON"),
        ('{"user": 1, "item": 2.}', "cut short or not JSON"),
        ('{"user": 1, "item": 2e}', "cut short or not JSON"),
        ('{"user": 1, "item": -}', "cut short or not JSON"),
        ('{"user": 1, "item": "2}', "cut short or not JSON"),
        ('{"user": 1, "item": "a\\', "cut short or not JSON"),
        ('{"user": 1, "item": "a\tb"}', "cut short or not JSON"),
        ('{"user": 1, "item": "\\x41"}', "cut short or not JSON"),
        ("{'user': 1, 'item': 2}", "cut short or not JSON"),
        ('{"user": 1, "item": True}', "cut short or not JSON"),
        ('{"user": 1, "x": [1, 2}', "cut short or not JSON"),
        ('{"user": 1, "x": nul, "item": 2}', "cut short or not JSON"),
        ("[" * 100_000, "cut short or not JSON"),
        ('{"user": ' + "9" * 5000 + ', "item": tru}', "cut short or not JSON"),
        ("7", "a record such as {...} is expected"),
        ('[{"user": 1, "item": 2}]', "a record such as {...} is expected"),
        ('{"user": 1, "item": true}', "'item' is neither text nor a number"),
        ('{"user": 1, "item": [2]}', "'item' is neither text nor a number"),
        ('{"user": 1, "item": {"a": 2}}', "'item' is neither text nor a number"),
        ('{"user": 1, "it\\u0065m": [2]}', "text or a number is expected, not list"),
        ('{"user": 1, "item": null}', "line 2: there is no item id"),
        ('{"item": 1}', "line 2: there is no user id"),
        ('{"user": "", "item": 1}', "line 2: the user id is ''; leave such rows out"),
        (b'{"user": "\xff", "item": 1}', "line 2: this is not UTF-8 text"),
        (b'{"user": "a\0", "item": 1}', "line 2: holds a NUL byte"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_one_sentence(tmp_path, line, says):
    line = line if isinstance(line, bytes) else line.encode()
    with pytest.raises(DataError, match=says) as caught:
        rows("jsonl", b'{"user": 1, "item": 1}\n' + line + b"\n", tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "line",
    [
        b"__import__('os').system('true')",
        b"{u'username': open('/etc/passwd'), u'product_id': u'1', u'date': u'2017-12-17'}",
        b"{u'username': u'a' + u'b', u'product_id': u'1', u'date': u'2017-12-17'}",
        b"{u'username': (lambda: 1)(), u'product_id': u'1', u'date': u'2017-12-17'}",
        b"{" * 10_000,
        b"{1: " + b"-" * 10_000 + b"1}",
        b"{[]: 1}",
    ],
)
def test_nothing_is_evaluated(tmp_path, line):
    with pytest.raises(DataError, match="this record is cut short or not a Python literal"):
        rows("steam", line, tmp_path)


def test_escapes_that_mean_nothing_are_no_warning(tmp_path):
    found = rows(
        "steam", rb"{u'username': u'a\d', u'product_id': u'1', u'date': u'2017-12-17'}", tmp_path
    )
    assert found[0][0] == r"a\d"


def test_a_long_record_is_scanned_but_not_parsed(tmp_path, monkeypatch):
    monkeypatch.setattr(records, "MAX_LITERAL", 100)
    good = '{"user": 1, "item": 2, "x": "%s"}' % ("a" * 200)
    assert rows("jsonl", good.encode(), tmp_path) == [(1, 2)]
    with pytest.raises(DataError, match=r"a record of 2.. bytes cannot be read"):
        rows("jsonl", good.replace("}", ",}").encode(), tmp_path)


def test_records_over_many_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr(lines, "BLOCK", 64)
    text = b"".join(b'{"user": "u%d", "item": %d}\n' % (n, n) for n in range(50))
    assert rows("jsonl", text, tmp_path) == [(f"u{n}", n) for n in range(50)]


def test_no_records(tmp_path):
    with pytest.raises(DataError, match=r"file.json holds no interactions"):
        rows("jsonl", b"\n", tmp_path)


FLOATS = st.floats(allow_nan=False, allow_infinity=False)  # inf is no literal
JSON_VALUE = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), FLOATS, st.text(max_size=8)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)
WANTED = st.one_of(st.none(), st.integers(), st.text(max_size=6), FLOATS)
OTHER = st.text(max_size=4).filter(lambda key: key not in ("user", "item"))
OBJECT = st.builds(
    lambda more, wanted: {**more, **wanted},
    st.dictionaries(OTHER, JSON_VALUE, max_size=3),
    st.dictionaries(st.sampled_from(["user", "item"]), WANTED),
)


def columns(text, parsers):
    member = Member("x", "x", io.BytesIO(text))
    found = [Records(block, ("user", "item"), parsers) for block in lines.blocks(member, LIMITS)]
    return [
        tuple(pair)
        for one in found
        for pair in zip(one.column(0).to_pylist(), one.column(1).to_pylist(), strict=True)
    ]


def spoken(value):
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "backslashreplace")
    return None if value is None else repr(value)


def canonical(text):
    """Numbers may be written in several ways."""
    try:
        return repr(json.loads(text)) if text and text[0] in "-0123456789" else text
    except ValueError:
        return text


@settings(max_examples=30, deadline=None)
@given(st.lists(OBJECT, max_size=4), st.booleans(), st.booleans())
def test_the_scan_agrees_with_the_json_module(objects, ascii_only, spaced):
    separators = (", ", ": ") if spaced else (",", ":")
    dumped = [json.dumps(one, ensure_ascii=ascii_only, separators=separators) for one in objects]
    text = "\n".join(dumped).encode("utf-8", "backslashreplace")
    found = columns(text, JSON)
    expected = [
        (spoken(one.get("user")), spoken(one.get("item")))
        for one in map(json.loads, text.decode().split("\n") if text else [])
    ]
    assert [tuple(map(canonical, pair)) for pair in found] == [
        tuple(map(canonical, pair)) for pair in expected
    ]


@settings(max_examples=30, deadline=None)
@given(st.lists(OBJECT, max_size=4), st.booleans())
def test_the_scan_agrees_with_literal_eval(objects, with_u):
    text = "\n".join(map(ascii, objects))
    if with_u:
        text = text.replace("{'", "{u'").replace(": '", ": u'").replace(", '", ", u'")
    expected = [ast.literal_eval(line) for line in text.split("\n")] if text else []
    found = columns(text.encode(), PYTHON)
    pairs = [(spoken(one.get("user")), spoken(one.get("item"))) for one in expected]
    assert [tuple(map(canonical, pair)) for pair in found] == [
        tuple(map(canonical, pair)) for pair in pairs
    ]


@settings(max_examples=50, deadline=None)
@given(OBJECT, st.data())
def test_damaged_lines_are_read_as_the_json_module_reads_them(one, data):
    line = json.dumps(one)
    at = data.draw(st.integers(0, len(line)))
    mark = data.draw(st.sampled_from([*'{}[]",:\\ 0-.eut', "", "null", '"user": 1, ']))
    line = line[:at] + mark + line[at + data.draw(st.integers(0, 2)) :]
    try:
        record = json.loads(line)
    except ValueError:
        return  # the scan may read it all the same, if what is wrong is inside of other values
    wanted = [record.get(key) for key in ("user", "item")] if isinstance(record, dict) else [[]]
    if any(isinstance(value, bool | list | dict) for value in wanted):
        with pytest.raises((DataError, CellError)):
            columns(line.encode(), JSON)
        return
    found = columns(line.encode(), JSON)
    assert [tuple(map(canonical, pair)) for pair in found] == [
        tuple(map(canonical, map(spoken, wanted)))
    ]


def test_gzip_and_plain_are_the_same(tmp_path):
    path = tmp_path / "reviews.json.gz"
    path.write_bytes(gzip.compress(raw.YELP))
    assert listed(yelp.read([path], {})) == EXACT["yelp"]
