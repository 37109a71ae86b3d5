"""Who may import whom."""

import ast
from pathlib import Path

import recbench

PACKAGE = Path(recbench.__file__).parent
LAYERS = [
    {"errors"},
    {"environment", "files"},
    {"registry", "data", "linalg"},
    {
        "catalog",
        "codes",
        "fetch",
        "transfer",
        "stored",
        "readers",
        "prepare",
        "recipes",
        "synthetic",
        "split",
        "splits",
    },
    {"metrics", "models", "datasets"},
    {"slices", "evaluate", "space", "search", "results", "traces", "contract", "doctor", "export"},
    {"plan", "work", "executors", "mixing", "proposals", "run", "estimate"},
    {"published"},
    {"tables", "latex", "paired"},
    {
        "report",
        "standings",
        "ranks",
        "compare",
        "charts",
        "landscapes",
        "convergence",
        "figures",
        "page",
    },
    {"check", "junit", "tuning", "serving"},
    {"api"},
    {"cli"},
]
LEVEL = {room: level for level, rooms in enumerate(LAYERS) for room in rooms}
EXACTLY = {
    "tables": {"latex"},
    "paired": set(),
    "report": {"registry", "results", "tables"},
    "standings": {"errors", "paired", "registry", "results"},
    "ranks": {"errors", "report", "results", "standings", "tables"},
    "compare": {"errors", "paired", "results", "tables"},
}


def imports(path: Path) -> set[str]:
    """The rooms of the house that a module imports, at any depth of its code."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("recbench."):
            found.add(str(node.module).split(".")[1])
    return found


def rooms() -> dict[str, set[str]]:
    """What each room imports from others."""
    found: dict[str, set[str]] = {}
    for path in PACKAGE.rglob("*.py"):
        room = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        if not room.startswith("__"):
            found.setdefault(room, set()).update(imports(path) - {room})
    return found


def test_every_room_has_its_place():
    assert set(rooms()) == set(LEVEL)


def test_imports_go_downwards_or_sideways():
    wrong = [
        f"{room} imports {other}"
        for room, others in rooms().items()
        for other in others
        if LEVEL[other] > LEVEL[room]
    ]
    assert not wrong


def test_reports_read_results_and_nothing_else():
    for room, allowed in EXACTLY.items():
        assert rooms()[room] <= allowed


def test_linear_algebra_knows_nothing_of_recommenders():
    assert rooms()["linalg"] <= {"errors", "linalg"}


def test_only_one_module_opens_a_socket():
    users = {
        path.stem
        for path in PACKAGE.rglob("*.py")
        if any(
            word in path.read_text(encoding="utf-8")
            for word in ("import requests", "import socket", "urllib.request")
        )
    }
    assert users <= {"fetch", "transfer"}
