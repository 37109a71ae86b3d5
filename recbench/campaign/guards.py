"""What may not stand side by side in one campaign folder, and what is only announced."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from recbench.campaign.plan import Plan, Trial
from recbench.campaign.row import Row
from recbench.errors import DataError

ELSEWHERE = "choose another folder with -o"
DIGITS = 12
"""Of a fingerprint of 64, enough to tell two apart."""
MADE_BY = ("code", "python", "packages")
"""What of an environment is the code that makes numbers."""


def refuse_other_data(rows: Iterable[Row], plan: Plan, folder: object) -> None:
    """Never put numbers of different data under one name, nor of the same data under two."""
    data = plan.dataset
    for row in rows:
        if row.dataset == data.name and row.fingerprint != data.fingerprint:
            raise DataError(
                f"{folder} holds results on other interactions that were called '{data.name}' "
                f"too (fingerprint {row.fingerprint[:DIGITS]}, now {data.fingerprint[:DIGITS]}); "
                f"{ELSEWHERE}"
            )
        if row.dataset != data.name and row.fingerprint == data.fingerprint:
            raise DataError(
                f"{folder} holds results on the same interactions under the name "
                f"'{row.dataset}', now '{data.name}'; use that name to go on with them, "
                f"or {ELSEWHERE}"
            )


def refuse_other_code(
    rows: Iterable[Row], plan: Plan, trials: Iterable[Trial], folder: object
) -> None:
    """Never put numbers beside others that read the same and were computed differently."""
    ids = {(trial.model.text, trial.seed): trial.id for trial in trials}
    for row in rows:
        if (row.dataset, row.split, row.dtype) != (plan.dataset.name, plan.rule.text, plan.dtype):
            continue
        expected = ids.get((row.text, row.seed))
        if expected is not None and expected != row.trial:
            raise DataError(
                f"{folder} holds a result of {row.text} by another revision of the model or the "
                f"split, on rows in another order, or with other --time (trial {row.trial}, now "
                f"{expected}); {ELSEWHERE}"
            )


def other_versions(runs: Sequence[Mapping[str, Any]], environment: Mapping[str, Any]) -> list[str]:
    """The versions of recbench, other than this one, that earlier runs were made by."""
    versions = [_version(run.get("environment", {})) for run in runs]
    return [text for text in dict.fromkeys(versions) if text and text != _version(environment)]


def _version(environment: Mapping[str, Any]) -> str:
    """Version and commit, and the content of the code where no commit vouches for it."""
    version, commit, code = (environment.get(key) for key in ("recbench", "commit", "code"))
    words = [str(version)] if version else []
    words += [f"commit {commit[:DIGITS]}"] if words and commit else []
    vouched = commit and not environment.get("dirty")
    words += [f"code {code[:DIGITS]}"] if words and code and not vouched else []
    return ", ".join(words)


def by_other_code(
    rows: Iterable[Row], runs: Sequence[Mapping[str, Any]], environment: Mapping[str, Any]
) -> list[Row]:
    """The rows that this very code did not make, by its content, or of which nobody knows."""
    made = {name: environment[name] for name in MADE_BY}
    same = {
        run.get("id")
        for run in runs
        if {name: run.get("environment", {}).get(name) for name in MADE_BY} == made
    }
    return [row for row in rows if row.run not in same]
