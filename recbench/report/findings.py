"""What a check found, as a table: published numbers and ours."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from recbench.published.check import Finding, summary
from recbench.report.tables import DIGITS, View


def view(findings: Sequence[Finding], everything: bool = False) -> View:
    """Ours, theirs, the difference: the rows that were run, or all."""
    shown = [finding for finding in findings if everything or finding.checked]
    lines: list[Mapping[str, Any]] = [
        {
            "source": f.row.source, "dataset": f.row.our_dataset or f.row.dataset,
            "model": f.row.model, "parameters": f.row.parameters, "metric": f.row.metric,
            "published": f.row.value, "ours": f.value,
            "difference": None if f.value is None else f.value - f.row.value,
            "tolerance": f.row.tolerance, "inside the grid": f.row.inside, "status": f.status,
        }
        for f in shown
    ]  # fmt: skip
    table = View("Published numbers and ours", pd.DataFrame(lines), mark="regressed")
    table.digits = max([DIGITS, *(finding.row.digits for finding in shown)])
    table.marked = [i for i, finding in enumerate(shown) if finding.regressed]
    if table.frame.get("inside the grid", pd.Series(dtype=float)).isna().all():
        table.frame = table.frame.drop(columns="inside the grid", errors="ignore")
    table.spare = ("difference", "tolerance", "inside the grid", "parameters", "source")
    table.notes = summary(findings)
    table.notes += dict.fromkeys(
        f"{f.row.text}: {', '.join(f.row.outside)} outside what {f.row.paper} prints it tried"
        + (f"; nearest inside: {f.row.inside_parameters}" if f.row.inside_parameters else "")
        for f in shown
        if f.row.outside
    )
    table.notes += [f"{f.row.source}, {f.row.text}: {f.reason}" for f in shown if f.reason]
    return table
