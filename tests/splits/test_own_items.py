"""Where users and items are nodes of one graph, nobody is recommended to itself."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from recbench.data.clean import prepare
from recbench.data.dataset import Dataset
from recbench.data.interactions import Interactions
from recbench.data.recipe import Recipe
from recbench.models.save import fit, load
from recbench.registry import SPLITS, build

NODES = 25
RULES = (
    "strong[target=0.5,minimum=2]",
    "weak",
    "user-ratio",
    "last",
    "temporal[valid=0.2,test=0.2]",
)


def links(graph="directed", names=lambda node: node):
    """A graph in which every node has some links, one of them to itself."""
    random = np.random.RandomState(3)
    rows = [(u, i) for u in range(NODES) for i in {u, *random.randint(0, NODES, 9).tolist()}]
    columns = {
        side: pa.array([names(row[n]) for row in rows]) for n, side in enumerate(("user", "item"))
    }
    table = pa.table({**columns, "time": pa.array(random.permutation(len(rows)), pa.int64())})
    return prepare(Interactions(table), Recipe(graph=graph), "links")


@pytest.mark.parametrize("names", [lambda node: node, lambda node: f"page {node}"])
@pytest.mark.parametrize("rule", RULES)
def test_no_node_can_be_recommended_to_itself(rule, names):
    data = links(names=names)
    assert not np.any(data.own_items[data.user] == data.item)
    divide = build(rule, SPLITS).divide
    split, plain = divide(data), divide(replace(data, graph=False))
    ids, items = data.user_ids.to_pylist(), data.item_ids.take(pa.array(split.items)).to_pylist()
    for part, before in ((split.valid, plain.valid), (split.test, plain.test)):
        assert len(part.users)
        assert (part.history != before.history).nnz == (part.target != before.target).nnz == 0
        for row, user in enumerate(part.users):
            added = {*part.seen[[row]].indices} - {*before.seen[[row]].indices}
            assert {items[column] for column in added} == {ids[user]} & set(items)


def test_undirected_links_are_there_both_ways():
    data = links("undirected")
    dense = data.matrix.toarray()
    assert data.user_ids == data.item_ids
    assert (dense == dense.T).all()
    assert dense.diagonal().sum() == 0


def test_a_node_on_one_side_alone_has_nothing_to_hide():
    table = pa.table({"user": ["a", "b", "c", "c"], "item": ["b", "x", "b", "x"]})
    data = prepare(Interactions(table), Recipe(graph="directed"), "links")
    assert data.own_items.tolist() == [-1, 0, -1]


def test_a_graph_is_known_again(tmp_path):
    data = links()
    data.save(tmp_path / "links.parquet")
    again = Dataset.load(tmp_path / "links.parquet")
    assert again.graph
    assert again.fingerprint == data.fingerprint
    plain = Dataset("links", data.user, data.item, data.user_ids, data.item_ids)
    assert plain.fingerprint != data.fingerprint


def test_models_that_are_kept_recommend_no_node_to_itself(tmp_path):
    data = links()
    model = fit("popularity", data)
    model.save(tmp_path / "model")
    for kept in (model, load(tmp_path / "model")):
        for user, best in zip(data.user_ids.to_pylist(), kept.for_users(k=NODES), strict=True):
            assert len(best) < NODES
            assert user not in [item for item, _ in best]


def test_a_graph_of_ones_own(recbench, folder):
    data = links()
    lines = [f"{u},{i}" for u, i in zip(data.user, data.item, strict=True)]
    (folder / "links.csv").write_text("\n".join(["from,to", *lines, "3,3"]))
    own = ["--data", "links.csv", "--user", "from", "--item", "to", "--graph", "directed"]
    result = recbench(
        "run", *own, "--split", "user-ratio", "-m", "ease", "-k", "map@10", "-o", "out"
    )
    assert result.exit_code == 0, result.output
    lists = recbench("recommend", *own, "-m", "ease", "-n", str(NODES), "-o", "lists.csv")
    assert lists.exit_code == 0, lists.output
    for line in (folder / "lists.csv").read_text().splitlines()[1:]:
        user, _, item, _ = line.split(",")
        assert user != item


def test_links_to_oneself_alone_are_no_graph(recbench, folder):
    (folder / "links.csv").write_text("user,item\n1,1\n2,2\n")
    result = recbench("run", "--data", "links.csv", "--graph", "directed", "-m", "ease")
    assert result.exit_code == 3
    assert "links nothing but nodes to themselves" in result.stderr
