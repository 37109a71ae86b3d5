"""What boards of tests are made of: a source, and a row that a paper prints."""

from recbench.published.rows import Published
from recbench.report.board.blocks import canonical
from recbench.report.board.sources import Source
from toys import RUN, trial

STRONG = canonical("strong")
RESULT = trial(1, 0.5, part="test", parameters={"l2": 1.0})


def source(*rows, name="mine", **changes) -> Source:
    split = rows[0].split if rows else STRONG
    return Source(name, rows, [{**RUN, "split": split, **changes}])


def row(**changes) -> Published:
    known = {
        "paper": "p", "table": "1", "dataset": "toy", "protocol": "strong", "model": "EASE",
        "metric": "ndcg@20", "value": 0.51, "our_dataset": "toy", "our_split": "strong",
        "our_model": "ease", "part": "test",
    }  # fmt: skip
    return Published(**known | changes)
