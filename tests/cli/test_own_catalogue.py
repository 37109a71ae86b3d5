"""A user's own datasets.yaml, one entry of which is of no use now."""

import json

import pytest

ENTRY = (
    "{name}:\n  title: Mine\n  licence: mine\n  reader: delimited\n"
    "  options: {{columns: {{user: u, item: i}}}}\n  files: [{{name: toy.csv, path: toy.csv}}]\n"
)
GOOD = ENTRY.format(name="good")
BAD = {
    "a reader of a plugin": ("reader: delimited", "reader: mine", "odd.reader: unknown reader 'm"),
    "a key that is not one": ("title", "tittle", "odd: unknown key 'tittle'; did you mean 'title'"),
    "a wrong type": ("title: Mine", "title: [1]", "odd.title: must be text"),
    "a rule that is not one": ("title", "positive: often\n  title", "odd.positive: 'often' is no"),
    "no mapping": ("\n  title: Mine\n", " 5\n#", "odd: must be a mapping"),
    "a path with a slash": ("name: toy.csv", "name: a/toy.csv", "odd.files[0]: 'a/toy.csv'"),
}


@pytest.fixture(params=BAD)
def says(request, folder):
    before, after, says = BAD[request.param]
    odd = ENTRY.format(name="odd")
    assert before in odd
    odd = odd.replace(before, after)
    if request.param == "no mapping":
        odd = odd.partition("#")[0]
    (folder / "datasets.yaml").write_text(odd + GOOD)
    return says


def test_an_entry_that_is_wrong_costs_its_own_dataset_only(recbench, says):
    listed = recbench("list", "datasets", "--json")
    assert listed.exit_code == 0, listed.output
    here = {line["name"]: line["here"] for line in json.loads(listed.stdout)}
    assert (here["odd"], here["debian"], here["good"]) == ("not usable", "embedded", "to fetch")
    assert says in listed.stderr
    assert recbench("list", "datasets").exit_code == 0
    for words in (["info", "debian"], ["info", "ease"], ["info", "good"], ["fetch", "good"],
                  ["run", "-d", "good", "-m", "popularity"], ["check", "msd"]):  # fmt: skip
        result = recbench(*words)
        assert result.exit_code == 0, (words, result.output)
        assert says not in result.stderr
    for words in (["info", "odd"], ["fetch", "odd"], ["run", "-d", "odd", "-m", "popularity"]):
        asked = recbench(*words)
        assert asked.exit_code == 2
        assert says in asked.stderr
