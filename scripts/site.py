"""What the documentation site has beyond docs/: a hook of `mkdocs build` (see mkdocs.yml).

README, CHANGELOG and CONTRIBUTING become pages, the API reference is made of docstrings, and files
of the repository that pages link to come along, so that no link leads out of the site.
"""

import re
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[1]
PAGES = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
}
REFERENCE = """# API

Every command is a function. [The tutorial](tutorial.md) shows them at work.

::: recbench.api

::: recbench.plugin
"""
STYLE = "table { display: block; overflow-x: auto; }\n"
"""Wide tables are pushed aside on phones, not cut."""
SWITCHED = '<style id="hljs-light"></style><style id="hljs-dark"></style>'
"""Of a highlighter, which would be loaded from elsewhere and is not used."""
LINK = re.compile(r"(\]\()([^)#\s:]+)((?:#[^)\s]*)?\))")
"""A Markdown link to a file: no address has a colon."""
TABLE = "metrics.csv"


def on_files(files: Any, config: Any) -> Any:
    """Add pages that do not lie in docs/."""
    made = {page: (ROOT / name).read_text(encoding="utf-8") for name, page in PAGES.items()}
    for page, content in (made | {"api.md": REFERENCE, "style.css": STYLE}).items():
        files.append(File.generated(config, page, content=content))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Lead links to where things are in the site; files of the repository are taken along."""
    origin = {page: name for name, page in PAGES.items()}.get(page.file.src_uri)
    folder = (ROOT / (origin or f"docs/{page.file.src_uri}")).parent
    depth = "../" * page.file.src_uri.count("/")
    return LINK.sub(partial(_led, folder, depth, config, files), markdown)


def on_post_page(output: str, page: Any, config: Any) -> str:
    """Give the theme the styles that it switches between, or its switch for the dark stops."""
    return output.replace("</head>", f"{SWITCHED}</head>", 1)


def _led(folder: Path, depth: str, config: Any, files: Any, link: re.Match[str]) -> str:
    """A link as it is in the site."""
    before, target, after = link.groups()
    path = (folder / target).resolve()
    if not path.exists() or not path.is_relative_to(ROOT):
        return link[0]  # mkdocs tells
    name = path.relative_to(ROOT).as_posix()
    if name in PAGES:
        return f"{before}{depth}{PAGES[name]}{after}"
    if name.startswith("docs/"):
        return f"{before}{depth}{name.removeprefix('docs/')}{after}"
    if path.is_dir():
        path, name = path / TABLE, f"{name}/{TABLE}"
    place = f"files/{name}"
    if files.get_file_from_path(place) is None:
        files.append(File.generated(config, place, abs_src_path=str(path)))
    return f"{before}{depth}{quote(place)}{after}"
