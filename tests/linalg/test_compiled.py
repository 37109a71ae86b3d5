"""Kernels on machines where nothing can be written: they are compiled, and not kept."""

import subprocess
import sys
from pathlib import Path

import recbench

PACKAGE = Path(recbench.__file__).parent
KERNELS = sorted(
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
    for path in PACKAGE.rglob("*_kernel.py")
)
CODE = """
import importlib, sys
from numba.core.caching import CacheImpl

CacheImpl._locator_classes = []  # none of numba's places for machine code can be written to
for name in sys.argv[1:]:
    importlib.import_module(name)
"""


def test_every_kernel_does_without_a_place_on_disk():
    assert len(KERNELS) >= 6
    done = subprocess.run([sys.executable, "-c", CODE, *KERNELS], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
