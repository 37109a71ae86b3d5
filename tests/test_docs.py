"""What the documentation shows must run, and what it links to must exist."""

import importlib.util
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
import yaml

from recbench.models.contract import check_model
from recbench.registry import LOSSES, MODELS, load_plugin

ROOT = Path(__file__).resolve().parents[1]
PAGES = [
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")),
    ROOT / "results" / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
LOGS = ROOT / "docs" / "logs"
WIDTH = 100


def blocks(path: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL)


def shown_commands() -> list[str]:
    """The commands of the README's "Use it", without the remarks beside them."""
    (shown,) = [text for text in blocks(ROOT / "README.md", "text") if "recbench list" in text]
    return [re.split(r"\s{3,}", line)[0] for line in shown.splitlines()]


def test_the_command_line_page_is_what_the_commands_say():
    script = ROOT / "scripts" / "make_cli_docs.py"
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_notebook_is_the_tutorial():
    script = importlib.util.spec_from_file_location("nb", ROOT / "scripts" / "make_notebook.py")
    made = importlib.util.module_from_spec(script)
    script.loader.exec_module(made)
    assert made.TARGET.read_text(encoding="utf-8") == made.notebook()
    code = [c["source"] for c in json.loads(made.notebook())["cells"] if c["cell_type"] == "code"]
    tutorial = blocks(ROOT / "docs" / "tutorial.md", "python")
    assert ["".join(lines) for lines in code] == [block.strip() for block in tutorial]


def test_every_page_is_on_the_site():
    """`mkdocs build --strict` in .ci/run says more, but not everybody has mkdocs."""
    site = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    listed = re.findall(r"[\w/-]+\.md", json.dumps(site["nav"]))
    made = {"index.md", "api.md", "changelog.md", "contributing.md"}
    there = {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").glob("*.md")}
    assert sorted(listed) == sorted(there | made | {"decisions/README.md"})


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def prose(text: str) -> Iterator[tuple[int, str]]:
    """The numbered lines that can be wrapped: no fences, indented code, tables or lone links."""
    fenced = False
    for number, line in enumerate(text.splitlines(), start=1):
        if line.startswith("```"):
            fenced = not fenced
        elif not fenced and not re.match(r"    |\||\s*\[[^]]*\]\(\S*\)\W?$", line):
            yield number, line


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_prose_is_wrapped(page):
    """What a program printed, in docs/logs, stays as it was printed."""
    if LOGS not in page.parents:
        lines = prose(page.read_text(encoding="utf-8"))
        assert not [number for number, line in lines if len(line) > WIDTH]


def test_what_counts_as_prose():
    wide = "word " * 30
    fenced = f"```text\n{wide}\n```"
    assert list(prose(f"{fenced}\n    {wide}\n| {wide} |\n[a]({'x' * 120}).")) == []
    assert [number for number, _ in prose(f"{fenced}\n{wide}\n- {wide}")] == [4, 5]


def test_the_readme_sets_up_a_fresh_machine_with_two_commands():
    commands = [line for text in blocks(ROOT / "README.md", "sh") for line in text.splitlines()]
    assert len(commands) == 2
    assert all(command.startswith("python3 -m venv .venv && ") for command in commands)
    assert commands[0].endswith(".venv/bin/recbench run --model deql-l2 --grid b=0.1:2.0")


SMALL = """
{name}:
  title: Small, under the name of what takes long to fetch or to fit
  licence: none
  reader: delimited
  options: {{columns: {{user: u, item: i}}}}
  files: [{{name: toy.csv, path: toy.csv}}]
"""


@pytest.mark.slow
@pytest.mark.parametrize("command", shown_commands())
def test_every_command_of_the_readme_runs(command, recbench, folder, request):
    rows = [f"u{user},i{item},{(user * item) % 5 + 1}" for user in range(60) for item in range(15)]
    (folder / "my.csv").write_text("\n".join(["u,i,stars", *rows]))
    words = shlex.split(command)[1:]
    if words[0] == "check":  # of which only the numbers of the embedded dataset can be checked here
        request.getfixturevalue("checked")
        words = ["debian" if word == "gowalla" else word for word in words]
    else:
        both = [SMALL.format(name=name) for name in ("gowalla", "debian")]
        (folder / "datasets.yaml").write_text("".join(both))
    if words[0] in ("show", "compare", "report", "board", "cite"):
        assert recbench("run", "-q", "-m", "ease", "-m", "edlae").exit_code == 0
    result = recbench(*words)
    assert result.exit_code == 0, result.output


def test_the_model_of_the_guide_passes_the_contract(tmp_path, folder):
    (code, *_) = blocks(ROOT / "docs" / "adding-a-model.md", "python")
    path = tmp_path / "rarity.py"
    path.write_text(code)
    load_plugin(path)
    problems = [result for result in check_model(MODELS.get("rarity")()) if result.problem]
    assert not problems


def test_the_page_of_trained_models_names_all_of_them():
    page, home = (ROOT / "docs" / "trained-models.md").read_text(encoding="utf-8"), "models.trained"
    known = [
        (name, registry.get(name)) for registry in (LOSSES, MODELS) for name in registry.names()
    ]
    names = [name for name, thing in known if home in thing.__module__]  # and not those of plugins
    assert len(names) > 30
    assert [name for name in names if f"`{name}`" not in page] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "leaves"),
    [("tutorial", "figures/landscape-deql-l2-b.svg"), ("recommending", "models/ease/model.json")],
)
def test_a_page_runs_from_top_to_bottom(page, leaves, folder, checked):
    together: dict[str, object] = {}
    for number, code in enumerate(blocks(ROOT / "docs" / f"{page}.md", "python"), start=1):
        exec(compile(code, f"{page} block {number}", "exec"), together)
    assert (folder / leaves).exists()


@pytest.mark.slow
def test_the_readme_prints_what_the_command_prints(recbench):
    """The numbers shown are those of the committed code; times differ.

    So may a last digit: in float32 near ties fall one way or the other on different processors.
    """
    (shown,) = [text for text in blocks(ROOT / "README.md", "text") if "deql-l2 *" in text]
    result = recbench("run", "--model", "deql-l2", "--grid", "b=0.1:2.0", "--format", "md")
    printed = [_numbers(line) for line in result.stdout.splitlines()]
    for line in shown.splitlines():
        if numbers := _numbers(line):
            assert any(other == pytest.approx(numbers, abs=1.1e-4) for other in printed), line


def test_the_ranking_in_the_readme_is_that_of_its_results():
    shown = blocks(ROOT / "README.md", "text")[0]
    table = pd.read_csv(ROOT / "results" / "debian-ten" / "metrics.csv")
    tested = table[(table["part"] == "test") & table["selected"]].set_index("model")
    lines = [line.split() for line in shown.splitlines() if re.match(r"  [a-z]   ", line)]
    assert len(lines) == len(tested) == 10
    for _, model, *words in lines:
        metrics = ("ndcg@100", "recall-capped@20")
        expected = [f"{tested.loc[model, metric]:.4f}" for metric in metrics]
        assert [word for word in words if re.fullmatch(r"0\.\d{4}", word)] == expected


def _numbers(line: str) -> list[float]:
    return [float(number) for number in re.findall(r"0\.\d{4}", line)]
