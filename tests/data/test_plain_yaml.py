"""Catalogues and configurations that mean harm."""

import time

import pytest
import yaml

from recbench.data import plain_yaml
from recbench.data.catalog import PACKAGE

ANCHORS = "a0: &a0 [x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12)
)
MERGED = "a0: &a0 {k0: 1}\n" + "".join(
    f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 10)}], k{n}: 1}}\n" for n in range(1, 12)
)
HOSTILE = {
    "escape codes": ('toy: {title: "a\\e[31m"}', "speak to a terminal"),
    "a number of 7,000 digits": ("toy: {revision: 0x" + "f" * 6000 + "}", "beyond all measure"),
    "half a character": ('toy: {title: "\\ud800"}', "YAML|half a character"),
    "brackets": ("x: " + "[" * 100_000, "nested more than 40 deep"),
    "braces": ("{a: " * 100_000, "nested more than 40 deep"),
    "block": ("".join(" " * n + "-\n" for n in range(300)), "nested more than 40 deep"),
    "anchors": (ANCHORS, "more than 100,000 values"),
    "merged": (MERGED, "more than 100,000 values"),
    "itself": ("x: &a [*a]", "'a' is said to be inside itself"),
    "key": ("? [a, b]\n: c", "a key on line 1 is not a word"),
    "long": ("x: [" + "1, " * 1_500_000 + "1]", "longer than 4 MB"),
    "many": ("x: [" + "1, " * 200_000 + "1]", "more than 100,000 values"),
    "digits": ("x: " + "9" * 5000, "a value that is none"),
    "date": ("x: 2020-99-99", "a value that is none"),
    "bytes": ("x: \x00\x01", "not YAML|special characters|control characters"),
    "tag": ("x: !!python/object/apply:os.system [date]", "could not determine a constructor"),
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("where", ["catalogue", "config"])
def test_a_hostile_file_is_one_sentence_at_once(recbench, folder, own, name, where):
    text, says = HOSTILE[name]
    path = folder / ("datasets.yaml" if where == "catalogue" else "run.yaml")
    path.write_bytes(text.encode())
    words = ["list", "datasets"] if where == "catalogue" else ["run", *own, "-c", "run.yaml"]
    start = time.perf_counter()
    result = recbench(*words)
    assert time.perf_counter() - start < 10
    assert result.exit_code == 2, result.output
    if (name, where) != ("key", "config"):  # there it is a list, which is an option that is unknown
        assert any(word in result.stderr for word in says.split("|")), result.stderr


def test_who_does_not_need_the_catalogue_does_not_read_it(recbench, folder, own):
    (folder / "datasets.yaml").write_text(HOSTILE["brackets"][0])
    assert recbench("run", *own, "-m", "popularity", "-o", "out").exit_code == 0
    data = "synthetic:users=100,items=30,interactions=900,seed=1"
    assert recbench("run", "-d", data, "-m", "popularity", "-o", "other").exit_code == 0
    for line in (
        "show out", "report out", "list models", "list runs", "info ease", "info ndcg", "doctor",
        "check-plugin popularity",
    ):  # fmt: skip
        result = recbench(*line.split())
        assert result.exit_code == 0, (line, result.output)


def test_the_own_catalogue_is_far_from_the_bounds():
    path = next(
        p for p in (PACKAGE / "datasets.yaml", PACKAGE.parent / "datasets.yaml") if p.exists()
    )
    content = path.read_bytes()
    assert len(content) < plain_yaml.MAX_BYTES / 10
    assert sum(isinstance(e, yaml.ScalarEvent) for e in yaml.parse(content)) < 10_000
