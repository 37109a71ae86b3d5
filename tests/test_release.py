"""What a release is made of agrees with itself."""

import tomllib
from pathlib import Path

import pytest
import yaml

import recbench

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_one_version_everywhere():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert recbench.__version__ == PROJECT["version"] == citation["version"]
    assert f"## {PROJECT['version']}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["ci", "release"])
def test_workflows_run_what_there_is(name):
    path = ROOT / ".github" / "workflows" / f"{name}.yml"
    workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    commands = [step["run"].split()[0] for step in steps if "run" in step]
    ours = [command for command in commands if "/" in command]
    assert ours
    assert all((ROOT / command).stat().st_mode & 0o100 for command in ours)


def test_every_supported_python_is_tested():
    text = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    pythons = yaml.safe_load(text)["jobs"]["lands"]["strategy"]["matrix"]["python"]
    said = [line.rpartition(" ")[2] for line in PROJECT["classifiers"] if ":: 3." in line]
    assert pythons == said


def test_the_conda_recipe_takes_its_facts_from_the_project():
    recipe = (ROOT / "conda" / "meta.yaml").read_text(encoding="utf-8")
    assert 'project["version"]' in recipe
    assert 'project["dependencies"]' in recipe
    (command,) = PROJECT["scripts"].items()
    assert " = ".join(command) in recipe
    low, high = PROJECT["requires-python"].split(",")
    assert recipe.count(f"python {low},{high}") == 2
