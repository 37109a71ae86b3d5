import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recbench.campaign.search.grammar import grid_values, models_from, spaces_from
from recbench.errors import UsageError
from recbench.models.linear.lae import DeqlL2
from recbench.params import Param, params_of
from recbench.registry import MODELS, parse_described

NUMBER = Param("l2", float, 1.0, "a number", low=0, log=True)
PLAIN = Param("x", float, 1.0, "a number")
WHOLE = Param("k", int, 1, "a whole number", low=1)


def test_published_values_are_used_between_the_ends():
    b = params_of(DeqlL2)["b"]
    assert grid_values("0.1:2.0", b) == list(b.grid)
    assert grid_values("0.2:1", b) == [value for value in b.grid if 0.2 <= value <= 1]


@pytest.mark.parametrize(
    ("param", "text", "values"),
    [
        (PLAIN, "0.1:0.4:0.1", [0.1, 0.2, 0.3, 0.4]),
        (PLAIN, "0:1:0.4", [0.0, 0.4, 0.8]),
        (PLAIN, "0.1,0.25,1", [0.1, 0.25, 1.0]),
        (PLAIN, "3", [3.0]),
        (PLAIN, "1,1.0,2", [1.0, 2.0]),
        (PLAIN, "0:9", [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]),
        (NUMBER, "1:1000:log4", [1.0, 10.0, 100.0, 1000.0]),
        (WHOLE, "1:5:2", [1, 3, 5]),
        (WHOLE, "1:4", [1, 2, 3, 4]),
    ],
)
def test_the_grammar(param, text, values):
    assert grid_values(text, param) == values


def test_a_log_parameter_gets_log_points():
    values = grid_values("1:512", NUMBER)
    ratios = [b / a for a, b in pairwise(values)]
    assert values[0] == 1
    assert values[-1] == 512
    assert ratios == pytest.approx([2.0] * 9, rel=1e-5)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("2:1", "must rise"),
        ("1:1", "must rise"),
        ("a:b", "'a' is not a number"),
        ("0.1:2.0:0", "step must be positive"),
        ("0.1:2.0:-1", "step must be positive"),
        ("0:1000000000:1", "1,000,000,001 points"),
        ("0:1:log3", "must start above 0"),
        ("1:2:log1", "from 2"),
        ("1:2:logx", "number of points"),
        ("1:2:3:4", "a range is"),
        ("1:", "a range is"),
        (":1", "a range is"),
        ("nan:1", "'nan' is not a number"),
        ("1:inf", "'inf' is not a number"),
        ("1,,2", "needs a number"),
        ("x", "needs a number, not 'x'"),
        ("-1,1", "must be a number in [0, inf)"),
    ],
)
def test_a_malformed_grid_is_one_sentence(text, says):
    with pytest.raises(UsageError) as caught:
        grid_values(text, NUMBER)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["b=", "=1", "b", ""])
def test_a_grid_needs_both_sides(text):
    with pytest.raises(UsageError, match="is not KEY=VALUE"):
        models_from(["deql-l2"], grids=[text])


@given(st.text(max_size=30))
def test_any_text_is_values_or_a_usage_error(text):
    try:
        values = grid_values(text, NUMBER)
    except UsageError:
        return
    assert values
    assert all(isinstance(value, float) and value >= 0 for value in values)


def test_several_grids_make_a_product():
    models = models_from(["edlae"], grids=["p=0.1,0.2", "l2=1,2,3"])
    assert [(model.p, model.l2) for model in models] == [
        (p, l2) for p in (0.1, 0.2) for l2 in (1.0, 2.0, 3.0)
    ]


def test_a_product_can_be_too_large():
    with pytest.raises(UsageError, match="1,000,000 points"):
        models_from(["edlae"], grids=["p=0:0.999:0.001", "l2=1:1000:1"])


def test_settings_apply_to_every_model_that_has_them():
    models = models_from(["ease", "edlae", "popularity"], sets=["l2=7"])
    assert [getattr(model, "l2", None) for model in models] == [7.0, 7.0, None]


def test_a_dotted_name_is_for_one_model():
    models = models_from(["ease", "edlae"], sets=["edlae.l2=7"])
    assert [model.l2 for model in models] == [100.0, 7.0]
    with pytest.raises(UsageError, match="did you mean 'edlae'"):
        models_from(["ease", "edlae"], sets=["edlea.l2=7"])


def test_what_is_said_of_one_model_stands_against_what_is_said_of_all():
    typed = ["ease[l2=5]", "edlae", "dlae"]
    models = models_from(typed, sets=["edlae.l2=7", "l2=1"])
    assert [model.l2 for model in models] == [5, 7, 1]
    models = models_from(typed, sets=["edlae.l2=7"], grids=["l2=1,2"])
    assert [model.l2 for model in models] == [1, 2, 7, 1, 2]  # grids are around what brackets say
    spaces = spaces_from(["edlae", "dlae"], sets=["edlae.l2=7", "l2=1"], grids=["p=0.1,0.2"])
    assert [space.text.count("l2=7") for space in spaces] == [1, 0]
    assert [space.text.count("l2=1") for space in spaces] == [0, 1]


def test_a_grid_around_brackets_says_so():
    said = list[str]()
    models = models_from(["ease[l2=5]"], grids=["l2=1,2"], announce=said.append)
    assert [model.l2 for model in models] == [1, 2]
    assert said == ["--grid l2=1,2 takes the place of 'l2' in the brackets of ease"]


@pytest.mark.parametrize(
    ("sets", "grids", "says"),
    [
        (["l2=1", "l2=2"], [], "'l2' is given twice, by --set l2=1 and by --set l2=2"),
        ([], ["l2=1", "l2=2,3"], "'l2' is given twice, by --grid l2=1 and by --grid l2=2,3"),
        (["l2=1"], ["l2=2,3"], "'l2' is given twice, by --set l2=1 and by --grid l2=2,3"),
        (["ease.l2=1", "ease.l2=2"], [], "given twice, by --set ease.l2=1 and by --set"),
        (["ease.l2=1", "l2=2"], [], "--set l2=2 would change nothing"),
    ],
)
def test_the_same_said_twice_is_refused(sets, grids, says):
    for read in (models_from, spaces_from):
        with pytest.raises(UsageError) as caught:
            read(["ease"], sets, grids)
        assert says in str(caught.value)


def test_what_brackets_say_is_not_said_again():
    with pytest.raises(UsageError, match=r"given twice, by its brackets and by --set ease\.l2=1"):
        models_from(["ease[l2=5]"], sets=["ease.l2=1"])
    with pytest.raises(UsageError, match="--set l2=1 would change nothing"):
        models_from(["ease[l2=5]"], sets=["l2=1"])


def test_brackets_are_sugar_for_set():
    assert models_from(["ease[l2=7]"])[0].text == models_from(["ease"], sets=["l2=7"])[0].text


def test_what_a_model_holds_is_set_before_what_is_inside():
    (model,) = models_from(["als"], sets=["loss.alpha=3", "loss=rg2"])
    assert model.loss.text == "rg2[alpha=3,l2=0.001]"
    models = models_from(["als"], grids=["als.loss.alpha=3,4", "als.loss=rg2"])
    assert [model.loss.alpha for model in models] == [3.0, 4.0]
    with pytest.raises(UsageError, match=re.escape("did you mean 'loss.alpha0'")):
        models_from(["als"], sets=["loss.alpha=3"])


def test_the_same_model_twice_is_one():
    assert len(models_from(["ease", "ease[l2=100]"])) == 1


@pytest.mark.parametrize(
    ("names", "sets", "says"),
    [
        (["eas"], [], "unknown model 'eas'; did you mean 'ease'?"),
        (["ease"], ["l3=1"], "unknown parameter of ease 'l3'; did you mean 'l2'?"),
        (["ease[l3=1]"], [], "unknown parameter of ease 'l3'; did you mean 'l2'?"),
        (["ease[l2]"], [], "setting 'l2' is not KEY=VALUE"),
        (["ease[l2=1"], [], "is not NAME or NAME[key=value,...]"),
        (["edlae[p=1]"], [], "parameter 'p' is 1, it must be a number in [0, 1)"),
    ],
)
def test_mistakes_are_named(names, sets, says):
    with pytest.raises(UsageError) as caught:
        models_from(names, sets)
    assert says in str(caught.value)


@given(st.floats(0.01, 0.99), st.floats(0.001, 1e6))
def test_canonical_text_reads_back(p, l2):
    (model,) = models_from([f"edlae[p={p!r},l2={l2!r}]"])
    cls, settings = parse_described(model.text, MODELS)
    assert cls(**settings) == model
