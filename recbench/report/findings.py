"""What a check found, as a table: published numbers and ours."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from recbench.published.check import Finding, summary
from recbench.report.tables import View


def view(findings: Sequence[Finding], everything: bool = False) -> View:
    """Ours, theirs, the difference: the rows that were run, or all."""
    shown = [finding for finding in findings if everything or finding.checked]
    lines: list[Mapping[str, Any]] = [
        {
            "source": f.row.source, "dataset": f.row.our_dataset or f.row.dataset,
            "model": f.row.model, "parameters": f.row.parameters, "metric": f.row.metric,
            "published": f.row.value, "ours": f.value,
            "difference": None if f.value is None else f.value - f.row.value,
            "tolerance": f.row.tolerance, "status": f.status,
        }
        for f in shown
    ]  # fmt: skip
    table = View("Published numbers and ours", pd.DataFrame(lines), mark="regressed")
    table.marked = [i for i, finding in enumerate(shown) if finding.regressed]
    table.spare = ("difference", "tolerance", "parameters", "source")
    table.notes = summary(findings)
    table.notes += [f"{f.row.source}, {f.row.text}: {f.reason}" for f in shown if f.reason]
    return table
