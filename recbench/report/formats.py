"""Tables as text: CSV, Markdown, LaTeX or JSON."""

import json
from collections.abc import Sequence
from typing import Any

import pandas as pd

from recbench.campaign.table import csv_text
from recbench.errors import without_codes
from recbench.report.latex import latex
from recbench.report.tables import View, is_missing, markdown


def text(views: Sequence[View], kind: str) -> str:
    """The views in a format for files and other programs; nothing in it speaks to a terminal."""
    return without_codes(_text(views, kind))


def _text(views: Sequence[View], kind: str) -> str:
    if kind == "json":
        tables = [{"title": v.title, "notes": v.notes, "rows": _records(v)} for v in views]
        return json.dumps(tables, indent=1, ensure_ascii=False)
    if kind == "csv":
        return csv_text(pd.concat([view.data for view in views])).rstrip("\n")
    if kind == "latex":
        return "\n\n".join(latex(view) for view in views)
    return "\n\n".join(markdown(view) for view in views)


def _records(view: View) -> list[dict[str, Any]]:
    columns = {str(name): view.frame[name].tolist() for name in view.frame.columns}
    if view.mark:
        columns[view.mark] = [i in view.marked for i in range(len(view.frame))]
    lines = zip(*columns.values(), strict=True)
    return [
        {n: None if is_missing(v) else v for n, v in zip(columns, line, strict=True)}
        for line in lines
    ]
