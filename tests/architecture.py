"""Which module imports which, and the rules of the house: used by test_architecture.py."""

import ast
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

GROUND = ("errors", "brackets", "params", "registry", "fields", "files", "environment")
"""Modules that every room may import."""

ROOMS = (
    "linalg",
    "data",
    "splits",
    "models",
    "evaluate",
    "campaign",
    "published",
    "report",
    "cli",
)
"""The folders: each may import those before it."""

FACADES = {"doctor": "data", "plugin": "evaluate", "api": "report"}
"""Modules at the top that gather what rooms offer, and the last room that each may import."""

SOCKETS = {"data.fetch.http"}
"""Who may speak to a network."""

NETS = "models.deep.nets"
"""The only folder that imports PyTorch; nothing outside of it imports it but in a function."""
LOADER = "models.deep.library"
"""Says whether PyTorch is there, in a function."""

NETWORK = ("requests", "socket", "urllib.request", "urllib3", "http.client")

Graph = Mapping[str, set[str]]


def modules(package: Path) -> dict[str, Path]:
    """Every module of the package by its dotted name below it; the package itself is ''."""
    found = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


_parsed = cache(ast.parse)


@cache
def _told(code: str) -> list[ast.Import | ast.ImportFrom | ast.ClassDef]:
    """The imports and classes of a file, at any depth; copies of a file are read once."""
    kinds = ast.Import | ast.ImportFrom | ast.ClassDef
    return [node for node in ast.walk(_parsed(code)) if isinstance(node, kinds)]


def imports(path: Path) -> list[ast.Import | ast.ImportFrom]:
    """The import statements of a file."""
    told = _told(path.read_text(encoding="utf-8"))
    return [node for node in told if not isinstance(node, ast.ClassDef)]


def classes(path: Path) -> list[ast.ClassDef]:
    """The classes that a file defines."""
    told = _told(path.read_text(encoding="utf-8"))
    return [node for node in told if isinstance(node, ast.ClassDef)]


def imported(path: Path, known: Iterable[str]) -> Iterator[str]:
    """What a file imports of the package, at any depth of its code, by dotted name below it.

    `from recbench import x`, `from recbench.room import x` and `import recbench.room.x` all mean
    the module x, where x is one, and importing a module runs the packages that it is in.
    """
    names = set(known)
    for node in imports(path):
        if isinstance(node, ast.ImportFrom):
            if node.level:
                raise AssertionError(f"{path} imports relatively; write the whole name")
            origin = str(node.module)
            if origin.partition(".")[0] == "recbench":
                start = origin.removeprefix("recbench").removeprefix(".")
                for alias in node.names:
                    whole = f"{start}.{alias.name}".removeprefix(".")
                    yield whole if whole in names else start
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.partition(".")[0] == "recbench":
                    yield alias.name.removeprefix("recbench").removeprefix(".")


def outside(path: Path) -> set[str]:
    """The modules of other packages that a file imports, by their whole names."""
    found = set()
    for node in imports(path):
        if isinstance(node, ast.ImportFrom):
            found |= {str(node.module)} | {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found


def early(path: Path) -> set[str]:
    """What a file imports as soon as it is imported itself, by whole names."""
    return _early(path.read_text(encoding="utf-8"))


@cache
def _early(code: str) -> set[str]:
    found, later = set(), ast.FunctionDef | ast.AsyncFunctionDef | ast.expr
    todo: list[ast.AST] = [*_parsed(code).body]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif not isinstance(node, later):
            todo += ast.iter_child_nodes(node)
    return found


def eager(package: Path) -> Iterator[str]:
    """Modules that import PyTorch, or nets, which do, before a model is fitted."""
    for name, path in modules(package).items():
        if f"{name}.".startswith(f"{NETS}."):
            continue
        known = early(path) if name == LOADER else early(path) | outside(path)
        if any(module.partition(".")[0] == "torch" for module in known):
            yield f"{name} imports torch"
        if any(f"{module}.".startswith(f"recbench.{NETS}.") for module in early(path)):
            yield f"{name} imports {NETS} at once"


def impatient(package: Path) -> set[str]:
    """Modules that import SciPy's sparse matrices at once, and not when the first one is made."""
    sparse = "scipy.sparse."
    return {
        name
        for name, path in modules(package).items()
        if any(f"{module}.".startswith(sparse) for module in early(path))
    }


def graph(package: Path) -> Graph:
    """By module: the modules of the package that it imports."""
    known = modules(package)
    return {name: set(imported(path, known)) - {name} for name, path in known.items()}


def room(module: str) -> str:
    """The folder, or the module at the top, that a module belongs to."""
    return module.partition(".")[0]


def forbidden(arrows: Graph) -> Iterator[str]:
    """Imports that go up, or out of the house."""
    places = {*GROUND, *ROOMS, *FACADES, "", "__main__"}
    for module, others in sorted(arrows.items()):
        if room(module) not in places:
            yield f"{module} has no place in the house"
        for other in sorted(others):
            if not _allowed(module, other):
                yield f"{module} imports {other or 'recbench'}"


def _allowed(module: str, other: str) -> bool:
    here, there = room(module), room(other)
    if other == "" or here == "__main__" or there in GROUND:
        return here != "" or there == ""
    if here in GROUND or here == "":
        return False
    if there in FACADES:
        return here in ("cli", *FACADES) and there != here
    if there not in ROOMS:
        return False
    last = FACADES.get(here, here)
    return ROOMS.index(there) <= ROOMS.index(last)


def cycles(arrows: Graph) -> list[list[str]]:
    """Groups of modules that import each other, directly or by way of others."""
    order: list[str] = []
    low: dict[str, int] = {}
    found: list[list[str]] = []
    stack: list[str] = []

    def visit(name: str) -> None:  # Tarjan's strongly connected components
        index = low[name] = len(order)
        order.append(name)
        stack.append(name)
        for other in sorted(arrows.get(name, ())):
            if other not in low:
                visit(other)
            if other in stack:
                low[name] = min(low[name], low[other])
        if low[name] == index:
            members = []
            while not members or members[-1] != name:
                members.append(stack.pop())
            if len(members) > 1:
                found.append(sorted(members))

    for name in sorted(arrows):
        if name not in low:
            visit(name)
    return found


def levels(package: Path) -> dict[str, int]:
    """By class: how many classes of the package are on the way up from it, itself included."""
    bases: dict[str, list[str]] = {}
    for path in modules(package).values():
        for node in classes(path):
            above = [b.value if isinstance(b, ast.Subscript) else b for b in node.bases]
            names = [b.id if isinstance(b, ast.Name) else getattr(b, "attr", "") for b in above]
            bases.setdefault(node.name, []).extend(n for n in names if n != node.name)

    def level(name: str) -> int:
        return 1 + max((level(base) for base in bases[name] if base in bases), default=0)

    return {name: level(name) for name in bases}


def speakers(package: Path) -> set[str]:
    """The modules that import something that opens sockets."""
    return {name for name, path in modules(package).items() if outside(path) & set(NETWORK)}
