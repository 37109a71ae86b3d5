import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recbench.data.readers import columns as columns_module
from recbench.data.readers.cells import CellError, integers
from recbench.data.readers.columns import NO_ID, IdColumn, TableBuilder, TimeColumn, ValueColumn
from recbench.errors import DataError

INT64 = st.integers(-(2**63), 2**63 - 1)
ODD = st.sampled_from(
    ["007", "-0", "+1", "0x1F", "0xFFFFFFFF", "0X7FFFFFFFFFFFFFFF", " 1", "1 ", "1.0", "1e3",
     "a", "é", "9223372036854775808", "-9223372036854775809", "00", "1_0", "٣"]
)  # fmt: skip


def same(column):
    return column


def ids(blocks, missing=()):
    column = IdColumn("user", missing)
    for block in blocks:
        column.append(pa.array(block, pa.string()))
    return column.finish(same)


@settings(deadline=None)
@given(st.lists(st.lists(INT64, min_size=1, max_size=6), min_size=1, max_size=4))
def test_canonical_integers_become_integers_as_wide_as_the_widest(blocks):
    found = ids([[str(number) for number in block] for block in blocks])
    small = all(-(2**31) <= number < 2**31 for block in blocks for number in block)
    assert found.type == (pa.int32() if small else pa.int64())
    assert found.to_pylist() == [number for block in blocks for number in block]


@settings(deadline=None)
@given(
    st.lists(
        st.lists(st.one_of(INT64.map(str), ODD), min_size=1, max_size=6), min_size=1, max_size=4
    ),
    ODD,
)
def test_one_odd_id_anywhere_makes_all_text_exactly_as_it_was(blocks, odd):
    blocks = [*blocks, [odd]]
    found = ids(blocks)
    assert pa.types.is_dictionary(found.type)
    assert found.to_pylist() == [text for block in blocks for text in block]
    assert len({chunk.dictionary.to_pylist().__str__() for chunk in found.chunks}) == 1


@pytest.mark.parametrize(
    "edge", [0, 9, 10, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**63 - 1, -(2**63)]
)
def test_edges_of_integers(edge):
    assert ids([[str(edge)]]).to_pylist() == [edge]
    assert integers(pa.array(["-" + "0" * 30])) is None


def test_a_slice_is_judged_by_itself():
    text = pa.array(["007", "12", "x"])
    assert integers(text[1:2]).to_pylist() == [12]
    assert integers(text[0:2]) is None


@pytest.mark.parametrize("word", [*NO_ID, "  "])
def test_missing_ids_are_refused(word):
    with pytest.raises(CellError, match="the user id is") as caught:
        ids([["a", "b", word]], NO_ID)
    assert caught.value.row == 2
    assert ids([["a", word]]).to_pylist() == ["a", word]


def test_many_dictionaries_are_merged_on_the_way(monkeypatch):
    monkeypatch.setattr(columns_module, "DICTIONARY_BYTES", 64)
    blocks = [[f"user {number % 7}", f"user {number}"] for number in range(50)]
    assert ids(blocks).to_pylist() == [text for block in blocks for text in block]


def test_values_are_finite_numbers():
    column = ValueColumn()
    column.append(pa.array(["1", " 2.5", "-1e3"]))
    column.append(pa.array([3], pa.int8()))
    column.append(pa.array([2**62], pa.int64()))
    assert column.finish(same).to_pylist() == [1.0, 2.5, -1000.0, 3.0, 2.0**62]


@pytest.mark.parametrize("word", ["inf", "-inf", "nan", "1e999", "", "x", "1,5", "0x10", "--1"])
def test_other_values_are_refused_by_row(word):
    with pytest.raises(CellError, match="value") as caught:
        ValueColumn().append(pa.array(["1", "2", word, "3"]))
    assert caught.value.row == 2


@pytest.mark.parametrize(
    ("texts", "unit", "seconds"),
    [
        (["1112486027", "0", "-5"], "s", [1112486027, 0, -5]),
        (["1369699200000"], "s", [1369699200000]),
        (["978300760.0", "1"], "s", [978300760, 1]),
        (["2005-09-06", "1970-01-02"], "s", [1125964800, 86400]),
        (["2010-10-19T23:55:27Z"], "s", [1287532527]),
        (["2010-10-19T23:55:27+02:00"], "s", [1287525327]),
        (["2018-07-07 22:09:11"], "s", [1531001351]),
        (["2014-04-07T10:51:09.277Z"], "ms", [1396867869277]),
        (["1112486027"], "ms", [1112486027]),
        ([" 5 "], "s", [5]),
    ],
)
def test_times(texts, unit, seconds):
    column = TimeColumn(unit)
    column.append(pa.array(texts))
    assert column.finish(same).to_pylist() == seconds


@pytest.mark.parametrize(
    "word", ["yesterday", "", "1.5", "2014-04-07T10:51:09.277Z", "2005-13-01", "9" * 20, "inf"]
)
def test_other_times_are_refused(word):
    with pytest.raises(CellError, match=r"the time '.*' is not a whole number or an ISO 8601 date"):
        TimeColumn().append(pa.array([word]))


def test_the_row_of_a_wrong_date_is_found():
    with pytest.raises(CellError) as caught:
        TimeColumn().append(pa.array(["2005-09-06"] * 100 + ["2005-09-99"] + ["2005-09-06"] * 40))
    assert caught.value.row == 100


def test_numbers_and_dates_do_not_mix():
    column = TimeColumn()
    column.append(pa.array(["5"]))
    with pytest.raises(CellError, match="the time '2005-09-06' is not a whole number"):
        column.append(pa.array(["2005-09-06"]))


def test_spans_stand_in_the_order_of_their_keys():
    builder = TableBuilder()
    for key, text in [(2, "c"), (1, "a"), (2, "d"), (1, "b")]:
        builder.begin(key)
        builder.append(
            {"user": pa.array([text]), "item": pa.array([key]), "time": pa.array([key])}, part=key
        )
    table = builder.finish("x").table
    assert table["user"].to_pylist() == ["a", "b", "c", "d"]
    assert table["part"].to_pylist() == table["time"].to_pylist() == [1, 1, 2, 2]
    assert table.schema.field("part").type == pa.int8()


def test_no_rows_is_an_error():
    builder = TableBuilder()
    builder.append({"user": pa.array([], pa.string()), "item": pa.array([], pa.string())})
    with pytest.raises(DataError, match=r"x.csv holds no interactions"):
        builder.finish("x.csv")


def test_dictionaries_may_come_with_more_words_than_are_used():
    column = IdColumn("user", ("",))
    words = pa.array(["", "b", "a", "unused"])
    column.append(pa.DictionaryArray.from_arrays(pa.array([2, 1, 2], pa.int8()), words))
    found = column.finish(same)
    assert found.to_pylist() == ["a", "b", "a"]
    assert sorted(found.chunks[0].dictionary.to_pylist()) == ["a", "b"]


def test_dictionaries_of_integers_are_integers():
    column = IdColumn("user")
    column.append(pa.DictionaryArray.from_arrays(pa.array([0, 2, 0]), pa.array(["7", "x", "8"])))
    assert column.finish(same).type == pa.int32()
    assert column.finish(same).to_pylist() == [7, 8, 7]


@pytest.mark.parametrize(
    ("blocks", "kind"),
    [
        ([[0.5, 5.0], [2**24]], pa.float32()),
        ([[0.5], [0.1]], pa.float64()),
        ([[1e300], [1.0]], pa.float64()),
        ([[2**24 + 1]], pa.float64()),
    ],
)
def test_values_are_narrow_only_where_no_digit_is_lost(blocks, kind):
    column = ValueColumn()
    for block in blocks:
        column.append(pa.array(block, pa.float64()))
    found = column.finish(same)
    assert found.type == kind
    assert found.to_pylist() == [value for block in blocks for value in block]


def test_text_merged_on_the_way_is_the_text_that_came(monkeypatch):
    blocks = [[f"u{(7 * n + m) % 11}" for m in range(5)] for n in range(20)]
    monkeypatch.setattr(columns_module, "DICTIONARY_BYTES", 1)
    found = ids(blocks)
    assert found.to_pylist() == [text for block in blocks for text in block]
    assert found.num_chunks == 1
    assert len(found.chunk(0).dictionary) == 11
