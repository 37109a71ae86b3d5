"""Which trial of each model is the best on validation."""

from collections.abc import Iterable

from recbench.campaign.row import Row


def selected(rows: Iterable[Row], select: str) -> set[str]:
    """The trial of each model and seed that is best on validation; ties by text, not by time."""
    groups: dict[tuple[str, str, str, int], list[Row]] = {}
    for row in rows:
        if row.part == "valid" and select in row.metrics:
            key = (row.dataset, row.split, row.model, row.seed)
            groups.setdefault(key, []).append(row)
    return {
        min(group, key=lambda row: (-row.metrics[select], row.text)).trial
        for group in groups.values()
    }
