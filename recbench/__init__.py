"""recbench: a benchmark suite for implicit-feedback recommenders.

    import recbench

    recbench.api.run("ease", grid={"l2": "10:1000:log3"})

`recbench.api` has the commands as functions, `recbench.plugin` what plugin files import. Both are
imported when they are first asked for.
"""

import importlib
from types import ModuleType

__version__ = "0.1.0"
__all__ = ["__version__", "api", "plugin"]


def __getattr__(name: str) -> ModuleType:
    if name in ("api", "plugin"):
        return importlib.import_module(f"recbench.{name}")
    raise AttributeError(f"module 'recbench' has no attribute '{name}'")
