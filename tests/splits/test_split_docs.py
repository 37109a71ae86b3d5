"""The page on splits says what the code does."""

import re
from pathlib import Path

import numpy as np
import pytest
from split_toys import check_split, dataset_of, random_raw

from recbench.registry import SPLITS, load_plugin
from recbench.splits.given import Given
from recbench.splits.last import Last
from recbench.splits.strong import Strong
from recbench.splits.temporal import Temporal
from recbench.splits.user_ratio import UserRatio
from recbench.splits.weak import Weak

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "splits.md").read_text(encoding="utf-8")


def section(name):
    return PAGE.split(f"\n## {name}\n")[1].split("\n## ")[0]


@pytest.mark.parametrize(
    "rule", [Strong(), Weak(), UserRatio(), Given(), Last(), Temporal()], ids=lambda r: r.name
)
def test_every_rule_has_a_section_with_its_defaults(rule):
    assert f"    {rule.text}\n" in section(rule.name)


@pytest.mark.parametrize("rule", [Weak(), UserRatio()], ids=lambda r: r.name)
def test_the_tables_of_sizes_are_right(rule):
    lines = re.findall(r"^\| (?:c|train/valid/test) \|.*$", section(rule.name), re.MULTILINE)
    counts, sizes = ([cell.strip() for cell in line.strip("|").split("|")][1:] for line in lines)
    found = rule.sizes(np.array(counts, dtype=np.int64))
    assert ["/".join(map(str, row)) for row in found.tolist()] == sizes


def test_the_rule_of_ones_own_works(tmp_path):
    code = re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert code is not None
    path = tmp_path / "last_item.py"
    path.write_text(code[1], encoding="utf-8")
    load_plugin(path)
    data = dataset_of(random_raw(4, 15, 12, 0.5))
    split = SPLITS.get("at-the-end")().apply(data)
    check_split(split, data)
    last = dict(zip(data.user, data.item, strict=True))
    found = dict(zip(split.test.users, split.test.target.indices, strict=True))
    assert found
    assert all(last[user] == item for user, item in found.items())
