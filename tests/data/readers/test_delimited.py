import csv
import io
from datetime import datetime

import pyarrow as pa
import pytest
import raw
from hypothesis import given, settings
from hypothesis import strategies as st

from recbench.data.readers import lines
from recbench.data.readers.archive import Limits
from recbench.data.readers.delimited import read
from recbench.errors import DataError, UsageError

MINE = {"columns": {"user": "u", "item": "i"}}
SPLIT = {**MINE, "delimiter": ","}


@pytest.fixture
def rows(tmp_path):
    """Read text as a file of a given name; return its rows."""

    def read_text(text, options=MINE, name="my.csv", **limits):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return listed(read([path], options, Limits(**limits)))

    return read_text


def listed(interactions):
    return [tuple(row.values()) for row in interactions.table.to_pylist()]


def sample(name, folder):
    given = raw.SAMPLES[name]
    return read(given.write(folder), given.options)


def second(day, time):
    return int(datetime.fromisoformat(f"2010-10-{day}T{time}+00:00").timestamp())


EXACT = {
    "csv": [
        (1, 2, 3.5, 1112486027), (1, 151, 4.0, 1094785734), (1, 223, 4.0, 1112485573),
        (138493, 71621, 4.5, 1255816373),
    ],
    "ml-10m": [(1, 122, 5.0, 838985046), (1, 185, 3.5, 838983525)],
    "msd": [
        ("b80344d063b5ccb3212f76538f3d9e43d87dca9e", "SOAKIMP12A8C130995", 1.0),
        ("b80344d063b5ccb3212f76538f3d9e43d87dca9e", "SOBBMDR12A8C13253B", 2.0),
        ("85c1f87fea955d09b4bec2e36aee110927aedf9a", "SOAKIMP12A8C130995", 12.0),
    ],
    "gowalla": [
        (0, 22847, second(19, "23:55:27")), (0, 420315, second(18, "22:17:43")),
        (7, 316637, second(17, "23:42:03")),
    ],
}  # fmt: skip
EXACT["ml-20m"] = EXACT["csv"]


@pytest.mark.parametrize("name", EXACT)
def test_faithful_files_give_exact_rows(tmp_path, name):
    found = sample(name, tmp_path)
    assert listed(found) == EXACT[name]
    roles = raw.SAMPLES[name].options["columns"]
    assert found.table.column_names == [role for role in raw.BY_NAME if role in roles]


def test_amazon_csv_keeps_leading_zeros_and_2018_swaps(rows):
    found = rows(raw.AMAZON_CSV, {"header": False, "columns": raw.FIRST_FOUR})
    assert found[0] == ("A39HTATAQ9V7YF", "0205616461", 5.0, 1369699200)
    assert rows(raw.AMAZON_CSV, {"columns": {"item": 0, "user": 1}})[1] == (
        "B000052YB6",
        "A3JM6GV9MNOF9X",
    )


def test_crlf_headers_and_milliseconds(rows):
    options = {
        "delimiter": "tab",
        "columns": {"user": "userID", "item": "artistID", "value": "weight"},
    }
    assert rows(raw.LASTFM, options) == [(2, 51, 13883.0), (2, 52, 11690.0)]
    clicks = {"columns": {"user": 0, "item": 2, "time": 1}, "time-unit": "ms"}
    assert rows(raw.YOOCHOOSE, clicks)[0] == (1, 214536502, 1396867869277)
    with pytest.raises(DataError, match=r"line 1: the time '2014.*'.*pass time-unit=ms"):
        rows(raw.YOOCHOOSE, {"columns": {"user": 0, "item": 2, "time": 1}})


def test_members_are_read_by_name_and_paths_as_given(tmp_path):
    text = {"b.csv": b"u,i\n3,3\n", "a.csv": b"u,i\n2,2\n"}
    packed, plain = tmp_path / "x.tar", tmp_path / "0.csv"
    packed.write_bytes(raw.tar_of(text))
    plain.write_bytes(b"u,i\n1,1\n")
    options = {**MINE, "member": "*.csv"}
    assert listed(read([packed, plain], options)) == [(2, 2), (3, 3), (1, 1)]


def test_files_may_be_parts(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).write_text("1\t2\n3\t4\n" if name == "a" else "1\t9\n")
    paths = [tmp_path / "a", tmp_path / "b"]
    options = {"delimiter": "\\t", "parts": "train,test"}
    assert listed(read(paths, options)) == [(1, 2, 0), (3, 4, 0), (1, 9, 2)]
    with pytest.raises(UsageError, match="unknown part 'tran'; did you mean 'train'"):
        read(paths, {"parts": ["tran", "test"]})
    with pytest.raises(UsageError, match="one name for each of the 2 files"):
        read(paths, {"parts": ["train"]})


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        ("1,2\n3,4\n", {}, [(1, 2), (3, 4)]),
        ("user,item\n1,2\n", {}, [(1, 2)]),
        ("item,user\na,b\n", {}, [("b", "a")]),
        ("user,item,value,time\na,b,1,5\n", {}, [("a", "b", 1.0, 5)]),
        ("who,what\n1,2\n", {}, None),
        ("alice,pie\nbob,tea\n", {}, [("alice", "pie"), ("bob", "tea")]),
        ("who,what\n1,2\n", {"columns": {"user": 0, "item": 1}}, [(1, 2)]),
        ("who,what\n1,2\n", {"header": "no"}, [("who", "what"), ("1", "2")]),
        ("1,2\n3,4\n", {"header": "yes", "columns": {"user": "1", "item": "2"}}, [(3, 4)]),
        ("\n\n1,2\n\n3,4\n\n", {}, [(1, 2), (3, 4)]),
        ("1;2\n", {"delimiter": ";"}, [(1, 2)]),
        ("1|2\n", {"delimiter": "|"}, [(1, 2)]),
        ("1 2\n", {"delimiter": "space"}, [(1, 2)]),
        ("1§2\n", {"delimiter": "§"}, [(1, 2)]),
        ("1::2:3::4\n", {"delimiter": "::"}, [(1, "2:3")]),
        ('"a,b","c""d"\n', {}, [("a,b", 'c"d')]),
        ('"a,b\n', {"quote": False}, [('"a', "b")]),
        ('"a\nb",c\nd,e\n', {"multiline": True}, [("a\nb", "c"), ("d", "e")]),
        ("1,2", {}, [(1, 2)]),
        ("\ufeffuser,item\r\n1,2\r\n", {}, [(1, 2)]),
        ("9223372036854775807,-5\n", {}, [(2**63 - 1, -5)]),
        ("9223372036854775808,2147483648\n", {}, [("9223372036854775808", 2**31)]),
        ("1,x,é\n2,y,b\n", {"columns": {"user": 0, "item": 2}}, [(1, "é"), (2, "b")]),
    ],
)  # fmt: skip
def test_what_can_be_read(rows, text, options, expected):
    if expected is None:
        with pytest.raises(DataError, match=r"no column 'user'; .*it has who, what"):
            rows(text, options)
    else:
        assert rows(text, options) == expected


def test_tabs_are_guessed_from_the_name(rows):
    assert rows("1\t2\n", {}, "x.tsv") == [(1, 2)]


def test_other_encodings(rows):
    text = "u,i\né,1\n"
    assert rows(text.encode("latin-1"), {**MINE, "encoding": "latin-1"}) == [("é", 1)]
    assert rows(text.encode("utf-16"), {**MINE, "encoding": "utf-16"}) == [("é", 1)]
    # In a column that nobody asked for, anything goes.
    assert rows(b"u,i,t\xe9xt\n1,2,caf\xe9\n") == [(1, 2)]


VALUE = {"columns": {"user": "u", "item": "i", "value": "v"}}
TIME = {"columns": {"user": "u", "item": "i", "time": "t"}}


@pytest.mark.parametrize(
    ("text", "options", "says"),
    [
        ("", MINE, r"my.csv is empty$"),
        ("\n \n", MINE, r"my.csv is empty$"),
        ("u,i\n", MINE, r"my.csv holds no interactions;"),
        ("u;i\n1;2\n", SPLIT, r"my.csv has one column when split at ','; pass delimiter=';'$"),
        ("u\ti\n1\t2\n", SPLIT, r"split at ','; pass delimiter='tab'$"),
        ("1::2::3\n", {"delimiter": ","}, r"split at ','; pass delimiter='::'$"),
        ("u i\n", SPLIT, r"split at ','; pass delimiter='space'$"),
        ("u\n1\n", MINE, r"has one column, 'u', where user and item are needed$"),
        ("userId,itemId\n1,2\n", {"columns": {"user": "userid", "item": "itemId"}},
         r"my.csv has no column 'userid'; did you mean 'userId'\? it has userId, itemId$"),
        ("u,i\n1,2\n", {"columns": {"user": "u", "item": "i", "value": "stars"}},
         r"has no column 'stars'; it has u, i$"),
        ("1,2,3.5\n4,5,6\n", MINE,
         r"no column 'u'; it has 1, 2, 3.5; without a header, give positions.*, or .* adjacency"),
        ("u,u,i\n1,2,3\n", MINE, r"has 2 columns called 'u'$"),
        ("1,2\n", {"columns": {"user": 0, "item": 5}}, r"has 2 columns, so .* no column 5 from 0$"),
        ("1,2\n", {"header": "no", "columns": {"user": "u", "item": 1}},
         r"has no header, so the user column needs a number from 0, not 'u'; pass header=yes"),
        ("u,i\n1,2\n3\n", MINE, r"my.csv, line 3: 2 cells expected, 1 found$"),
        ("u,i\n1,2\n\n\n3,4,5\n", MINE, r"my.csv, line 5: 2 cells expected, 3 found$"),
        ("u,i\n1,2\n3,\n", MINE, r"my.csv, line 3: the item id is ''; leave such rows out$"),
        ("u,i\nx,2\n\nNaN,4\n", MINE, r"line 4: the user id is 'NaN'; leave such rows out$"),
        ("u,i,v\n1,2,3\n1,2,\n", VALUE, r"line 3: the value '' is not a number$"),
        ("u,i,v\n1,2,good\n", VALUE, r"line 2: the value 'good' is not a number$"),
        ("u,i,v\n1,2,3\n1,2,inf\n", VALUE, r"line 3: the value is inf, not a finite number$"),
        ("u,i,v\n1,2,nan\n", VALUE, r"line 2: the value is nan, not a finite number$"),
        ("u,i,v\n1,2,1e400\n", VALUE, r"line 2: the value is inf, not a finite number$"),
        ("u,i,t\n1,2,soon\n", TIME, r"line 2: the time 'soon' is not a whole number or an ISO"),
        ("u,i,t\n1,2,5\n1,2,2020-01-01\n", TIME, r"line 3: the time '2020-01-01' is not"),
        ('u,i\n"1,2\n3,4\n', MINE, r"line 2: a quoted cell does not end on its line; pass"),
        ('u,i\n"a","b\nc,d\n"\n', MINE, r"line 2: here or below a quoted cell does not end"),
        (b"u,i\n1,2\n3,\xff\n", MINE, r"line 3: this is not UTF-8 text; pass encoding=latin-1"),
        (b"u,i\n1,2\n3,\x004\n", MINE, r"line 3: holds a NUL byte"),
        ("u,i\n1,2\n".encode("utf-16"), MINE, r"is UTF-16 text; pass encoding=utf-16 or save it"),
        ("1::2\x1f3\n", {"delimiter": "::"}, r"holds the control character 0x1F"),
    ],
)  # fmt: skip
def test_every_wrong_file_is_one_sentence(rows, text, options, says):
    with pytest.raises(DataError, match=says) as caught:
        rows(text, options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (
            {"delimeter": ","},
            "unknown parameter of delimited 'delimeter'; did you mean 'delimiter'",
        ),
        ({"header": "maybe"}, "unknown value of 'header' 'maybe'"),
        ({"delimiter": ""}, "option 'delimiter' cannot be ''"),
        ({"delimiter": "\n"}, "option 'delimiter' cannot be"),
        ({"delimiter": '"'}, "option 'delimiter' cannot be"),
        ({"columns": {"usr": 0}}, "unknown column role 'usr'; did you mean 'user'"),
        ({"columns": "u,i"}, "option 'columns' needs pairs"),
        ({"columns": {"user": 0, "item": 0}}, "two of user, item are the same column"),
        ({"time-unit": "h"}, "unknown value of 'time-unit' 'h'"),
        ({"encoding": "nonsense"}, "unknown encoding 'nonsense'"),
    ],
)
def test_wrong_options_are_usage_errors(rows, options, says):
    with pytest.raises(UsageError, match=says):
        rows("1,2\n", options)


def test_a_long_line_is_refused_before_it_is_held(rows):
    with pytest.raises(DataError, match=r"line 2: longer than the limit of 1,000 bytes"):
        rows("u,i\n" + "1" * 5000 + ",2\n", max_line=1000)


@pytest.mark.parametrize("rows_before", [0, 3000])
def test_ids_are_judged_by_the_whole_column(rows, monkeypatch, rows_before):
    monkeypatch.setattr(lines, "BLOCK", 256)
    text = "u,i\n" + "1,2\n" * rows_before + "007,2\n" + "3,2\n" * 3000
    found = rows(text)
    assert {user for user, _ in found} == {"1", "007", "3"} - ({"1"} if not rows_before else set())
    assert {type(item) for _, item in found} == {int}


CELL = st.text(
    st.characters(codec="utf-8", exclude_characters="\0\r\x1f", exclude_categories=["Cs"]),
    max_size=4,
)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.tuples(CELL, CELL, st.floats(allow_nan=False, allow_infinity=False)),
        min_size=1,
        max_size=12,
    )
)
def test_what_the_csv_module_writes_comes_back(tmp_path_factory, table):
    table = [(f"u{user}", f"i{item}", value) for user, item, value in table]
    sink = io.StringIO(newline="")
    writer = csv.writer(sink, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerows([("u", "i", "v"), *table])
    path = tmp_path_factory.mktemp("csv") / "my.csv"
    path.write_text(sink.getvalue(), encoding="utf-8", newline="")
    assert listed(read([path], {**VALUE, "multiline": True})) == table


def test_the_columns_are_what_interactions_want(rows, tmp_path):
    found = sample("csv", tmp_path).table
    assert found.schema == pa.schema(
        {"user": pa.int32(), "item": pa.int32(), "value": pa.float32(), "time": pa.int64()}
    )


@pytest.mark.parametrize("header", ["user,item\n", ""])
def test_a_byte_order_mark_inside_a_file_is_no_part_of_an_id(tmp_path, header):
    path = tmp_path / "joined.csv"
    path.write_text(f"\ufeff{header}1,2\n3,4\n\ufeff5,6\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"line \d: the user id begins with a byte-order mark"):
        read([path], {})


def test_a_byte_order_mark_at_the_start_is_welcome(tmp_path):
    path = tmp_path / "marked.csv"
    path.write_text("\ufeffuser,item\n1,2\n", encoding="utf-8")
    assert read([path], {}).table.to_pylist() == [{"user": 1, "item": 2}]
