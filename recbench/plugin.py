"""The one module that a plugin file imports from: registries, and what is registered in them.

    from recbench.plugin import MODELS, Constant, Model, Scorer, param

docs/adding-a-model.md has a whole file for a model, a metric, a split, a reader, losses and an
encoder.
"""

from recbench.data.dataset import Dataset, binary_csr
from recbench.data.interactions import Interactions
from recbench.data.readers.archive import LIMITS, Limits, Member, matcher, members
from recbench.data.readers.cells import CellError
from recbench.data.readers.columns import TableBuilder
from recbench.data.readers.contract import check_reader
from recbench.data.readers.lines import Block, ahead, blocks
from recbench.data.readers.options import listed
from recbench.errors import DataError, RecbenchError, Refused, UsageError
from recbench.evaluate.contract import check_metric
from recbench.evaluate.metrics import Metric
from recbench.evaluate.ranking import Ranking
from recbench.linalg.normal import Terms
from recbench.linalg.responses import Means, Response
from recbench.models.base import Family, Fit, Model
from recbench.models.context import Context
from recbench.models.contract import check_model
from recbench.models.factors.losses import QuadraticLoss
from recbench.models.factors.objectives import Objective
from recbench.models.loss_contract import check_loss
from recbench.models.popularity import Constant
from recbench.models.rounds import Rounds, Schedule, run
from recbench.models.scorers import Base, Factors, ItemItem, Query, Scorer, SparseItemItem
from recbench.models.trained.batches import Batch
from recbench.models.trained.encoders import (
    Bound,
    Encoder,
    Forward,
    Gradient,
    Weights,
    by_row,
)
from recbench.models.trained.loss import Grades, Loss, Positives
from recbench.models.trained.training import TrainedFamily, Training
from recbench.params import Described, held, inlined, make, param
from recbench.registry import LOSSES, METRICS, MODELS, READERS, SPLITS, CheckResult, Registry
from recbench.splits.base import SplitRule, check_data, check_part, part_of
from recbench.splits.contract import check_split
from recbench.splits.rows import by_user, deal, shuffle_users
from recbench.splits.types import Part, Split

__all__ = [
    "LIMITS",
    "LOSSES",
    "METRICS",
    "MODELS",
    "READERS",
    "SPLITS",
    "Base",
    "Batch",
    "Block",
    "Bound",
    "CellError",
    "CheckResult",
    "Constant",
    "Context",
    "DataError",
    "Dataset",
    "Described",
    "Encoder",
    "Factors",
    "Family",
    "Fit",
    "Forward",
    "Grades",
    "Gradient",
    "Interactions",
    "ItemItem",
    "Limits",
    "Loss",
    "Means",
    "Member",
    "Metric",
    "Model",
    "Objective",
    "Part",
    "Positives",
    "QuadraticLoss",
    "Query",
    "Ranking",
    "RecbenchError",
    "Refused",
    "Registry",
    "Response",
    "Rounds",
    "Schedule",
    "Scorer",
    "SparseItemItem",
    "Split",
    "SplitRule",
    "TableBuilder",
    "Terms",
    "TrainedFamily",
    "Training",
    "UsageError",
    "Weights",
    "ahead",
    "binary_csr",
    "blocks",
    "by_row",
    "by_user",
    "check_data",
    "check_loss",
    "check_metric",
    "check_model",
    "check_part",
    "check_reader",
    "check_split",
    "deal",
    "held",
    "inlined",
    "listed",
    "make",
    "matcher",
    "members",
    "param",
    "part_of",
    "run",
    "shuffle_users",
]
