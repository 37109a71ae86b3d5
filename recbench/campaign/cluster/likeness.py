"""What machines of a cluster have in common with the one that started the run, and what not."""

from collections.abc import Mapping
from typing import Any

KIND = ("cpu", "cores", "memory_bytes", "platform", "variables")
"""What of an environment tells kinds of machines apart, beside the BLAS; the code is the same."""

Environment = Mapping[str, Any]


def difference(here: Environment, there: Environment) -> str:
    """Why a machine would make other numbers than this one, by its code; empty: it would not."""
    if here["code"] != there["code"]:
        return (
            f"it has another recbench ({_version(there)}, here {_version(here)}, or a changed "
            "one); install the same"
        )
    if _minor(here) != _minor(there):
        return f"it has Python {there['python']}, here it is {here['python']}; use the same"
    for name, version in here["packages"].items():
        other = there["packages"].get(name)
        if other != version:
            had = f"{name} {other}" if other else f"no {name}"
            return f"it has {had}, here it is {version}; install the same"
    return ""


def blas_of(environment: Environment) -> str:
    """What multiplies matrices, as far as it decides the last digits."""
    libraries = [
        f"{one['internal_api']} {one['version']}, {one['architecture']} kernels"
        for one in environment["blas"]
    ]
    return "; ".join(sorted({*libraries}))


def kinds(environments: Mapping[str, Environment]) -> list[dict[str, Any]]:
    """Machines that are alike, once, each with the workers that run on such."""
    found: dict[str, dict[str, Any]] = {}
    for worker, environment in sorted(environments.items()):
        told = {name: environment[name] for name in KIND}
        alike = repr((told, blas_of(environment)))  # libraries are listed as they were loaded
        kind = found.setdefault(alike, {**told, "blas": environment["blas"], "workers": []})
        kind["workers"].append(worker)
    return list(found.values())


def _version(environment: Environment) -> str:
    commit = environment.get("commit")
    return f"{environment['recbench']}{f', commit {commit[:12]}' if commit else ''}"


def _minor(environment: Environment) -> list[str]:
    return str(environment["python"]).split(".")[:2]
