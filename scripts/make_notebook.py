"""Write docs/tutorial.ipynb from docs/tutorial.md; `--execute` also runs it in an empty folder.

The blocks of Python become cells. The notebook is kept without outputs: executing it fails where a
cell does.
"""

import json
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parents[1] / "docs"
TARGET = DOCS / "tutorial.ipynb"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def notebook() -> str:
    """The tutorial as the text of a notebook."""
    pieces = BLOCK.split((DOCS / "tutorial.md").read_text(encoding="utf-8"))
    cells = [_cell(number, piece.strip()) for number, piece in enumerate(pieces) if piece.strip()]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    whole = {
        "cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5,
    }  # fmt: skip
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


def _cell(number: int, text: str) -> dict[str, Any]:
    """Text and code take turns."""
    code = {"cell_type": "code", "execution_count": None, "outputs": []} if number % 2 else {}
    return {
        "id": f"cell-{number}", "cell_type": "markdown", **code, "metadata": {},
        "source": text.splitlines(keepends=True),
    }  # fmt: skip


def execute() -> None:
    """Run every cell, in order."""
    import nbformat
    from nbclient import NotebookClient

    with tempfile.TemporaryDirectory() as folder:
        read = nbformat.reads(notebook(), as_version=4)
        nbformat.validate(read)
        client = NotebookClient(read, timeout=600, resources={"metadata": {"path": folder}})
        client.execute()


if __name__ == "__main__":
    TARGET.write_text(notebook(), encoding="utf-8")
    if sys.argv[1:] == ["--execute"]:
        execute()
