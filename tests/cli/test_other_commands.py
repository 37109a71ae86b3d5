import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import toys
from recbench.cli import COMMANDS, main
from recbench.files import sealed
from recbench.registry import LOSSES, METRICS, MODELS, READERS, SPLITS


def test_help_lists_every_command_with_the_line_it_starts_with(recbench):
    result = recbench("--help")
    assert result.exit_code == 0
    for name, line in COMMANDS.items():
        assert line in result.stdout
        own = recbench(name, "--help")
        assert own.exit_code == 0, own.output
    for code in ("0 ", "1 ", "2 ", "3 ", "130"):
        assert f"  {code}" in result.stdout


def test_without_words_there_is_help_and_no_error(recbench):
    told = recbench().output
    assert "Commands:" in told
    assert "Error" not in told


def test_help_imports_nothing_heavy():
    code = (
        "import sys; from recbench.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'numpy', 'scipy', 'pandas', 'pyarrow', 'rich', 'requests', 'tqdm', 'yaml'}\n"
        "found = heavy & set(sys.modules)\n"
        "sys.exit(f'imported {found}' if found else 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


HEAVY = ("numba", "pandas", "scipy.linalg", "scipy.sparse")
"""What fits and results need, and what only lists or explains does not."""


@pytest.mark.parametrize(
    ("commands", "heavy"),
    [
        (["list models", "list losses", "list metrics", "info deql-l2", "info mult-vae",
          "info ndcg"], ("filelock", "pyarrow", *HEAVY)),
        (["list datasets", "list splits", "list readers", "info debian", "info strong"], HEAVY),
    ],
    ids=["models", "data"],
)  # fmt: skip
def test_lists_and_explanations_import_only_what_they_need(commands, heavy):
    code = (
        "import sys; from recbench.cli import main\n"
        f"for command in {commands}:\n"
        "    try: main(command.split())\n"
        "    except SystemExit as end: assert not end.code, command\n"
        f"    found = {set(heavy)} & set(sys.modules)\n"
        "    if found: sys.exit(f'recbench {command} imports {found}')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout


def test_lists_start_no_threads_of_blas_and_leave_others_what_was_set(monkeypatch):
    for name in ("OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS", "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    code = (
        "import os; from recbench.cli import main\n"
        "before = {**os.environ}\n"
        "try: main(['list', 'models'])\n"
        "except SystemExit as end: assert not end.code\n"
        "assert {**os.environ} == before\n"
        "from threadpoolctl import threadpool_info\n"
        "found = [x for x in threadpool_info() if x['internal_api'] == 'openblas']\n"
        "assert all(library['num_threads'] == 1 for library in found), found"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_module_runs_as_the_command():
    done = subprocess.run(
        [sys.executable, "-m", "recbench", "--version"], capture_output=True, text=True
    )
    assert done.stdout.startswith("recbench, version")


@pytest.mark.parametrize("kind", ["datasets", "models", "metrics", "splits", "readers", "runs"])
def test_every_kind_is_listed_for_people_and_for_programs(recbench, own, kind):
    recbench("run", *own, "-m", "popularity")
    assert recbench("list", kind).exit_code == 0
    lines = json.loads(recbench("list", kind, "--json").stdout)
    assert lines
    assert all(set(line) == set(lines[0]) for line in lines)


def test_a_list_of_runs_does_not_speak_to_the_terminal(recbench, own):
    recbench("run", *own, "-m", "popularity")
    (log,) = Path("results").glob("*/trials.jsonl")
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    odd = [line | {"model": "\x1b[31m\0"} for line in lines]
    for line in odd:
        del line["digest"]
    log.write_text("".join(sealed(json.dumps(line)) + "\n" for line in odd))
    shown = recbench("list", "runs").stdout
    assert "?[31m?" in shown
    assert not {"\x1b", "\0"} & {*shown}


def test_a_narrow_list_of_datasets_has_whole_numbers():
    shown = CliRunner().invoke(main, ["list", "datasets"], env={"COLUMNS": "80"}).stdout
    assert "16,600" in shown
    assert "160,185" in shown
    assert max(map(len, shown.splitlines())) <= 80


@pytest.mark.parametrize("registry", [MODELS, METRICS, SPLITS, READERS])
def test_everything_listed_says_what_it_is(registry):
    for name in registry.names():
        sentence = (registry.get(name).__doc__ or "").strip()
        assert sentence, f"{registry.kind} {name} has no docstring"
        assert registry.get(name).name == name


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("deql-l2", "l2-effective"),
        ("ndcg", "log2"),
        ("strong", "heldout"),
        ("gowalla", "29,858"),
        ("debian", "embedded"),
    ],
)
def test_info_explains_anything_by_name(recbench, name, says):
    result = recbench("info", name)
    assert result.exit_code == 0, result.output
    assert says in result.stdout
    assert json.loads(recbench("info", name, "--json").stdout)


@pytest.mark.parametrize(
    ("name", "loss", "formula", "paper"),
    [
        ("mine-plus", None, "-s_ui / t + λ log N E_j e^(s_uj / t)", "Debiased"),
        ("mf-ccl", "ccl", "1 - s_ui + w E_j [s_uj - ε]₊", "SimpleX"),
        ("lightgcn", "bpr", "E_j log(1 + e^(s_uj - s_ui))", "BPR"),
        ("mf[loss=mine-plus[t=0.2]]", "mine-plus", "-s_ui / t + λ log N E_j e^(s_uj / t)", "Koren"),
        ("ials", "ials", "Σ_(u,i) (1 - s_ui)² + α0 Σ_u Σ_j v_j s_uj²", "Rendle"),
    ],
)
def test_info_says_what_is_minimised(recbench, name, loss, formula, paper):
    (sheet,) = json.loads(recbench("info", name, "--json").stdout)
    assert (sheet.get("loss"), sheet["formula"]) == (loss, formula)
    assert "s_uj: score" in sheet["where"]
    assert paper in sheet["cite"]
    assert formula in recbench("info", name).stdout  # brackets are no markup


def test_info_cuts_no_word_on_a_narrow_screen():
    lines = CliRunner().invoke(main, ["info", "mf"], env={"COLUMNS": "80"}).stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert "…" not in "".join(lines)
    assert {*LOSSES.names()} <= {*re.findall(r"[\w-]+", "\n".join(lines))}


def test_info_cites_the_model_and_the_loss_that_it_holds(recbench):
    printed = recbench("info", "mf[loss=ccl]", "--bibtex").stdout
    assert "Koren" in printed
    assert "SimpleX" in printed


def test_every_loss_has_a_formula_and_a_paper(recbench):
    lines = json.loads(recbench("list", "losses", "--json").stdout)
    ours = [line for line in lines if line["from"].startswith("recbench ")]  # not of other tests
    assert len(ours) > 20
    assert not [
        line["name"] for line in ours if not (line["formula"] and LOSSES.get(line["name"]).cite)
    ]
    shown = recbench("list", "losses").stdout
    assert "1 - s_ui + w E_j [s_uj - ε]₊" in shown


def test_info_on_nothing_names_the_closest(recbench):
    result = recbench("info", "deql-l3")
    assert result.exit_code == 2
    assert "did you mean 'deql-l2'" in result.stderr


def test_an_unknown_command_names_the_closest(recbench):
    result = recbench("rum")
    assert result.exit_code == 2
    assert "unknown command 'rum'; did you mean 'run'?" in result.stderr


def test_doctor_measures_this_machine(recbench):
    report = json.loads(recbench("doctor", "--json", "--items", "1000").stdout)
    assert "GFLOP/s" in report["facts"]["sgemm"]
    assert "EASE, 1,000 items" in report["facts"]
    assert recbench("doctor", "--items", "1000").exit_code == 0


def test_doctor_says_when_a_variable_holds_the_machine_back(recbench, monkeypatch):
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Prescott")
    monkeypatch.setenv("OMP_NUM_THREADS", "0")
    report = json.loads(recbench("doctor", "--json", "--items", "10000000").stdout)
    told = " ".join(report["advice"])
    assert "OPENBLAS_CORETYPE=Prescott" in told
    assert "OMP_NUM_THREADS=0" in told
    assert "does not fit" in told


def test_a_bad_model_fails_its_checks_by_name(recbench, folder):
    (folder / "bad.py").write_text(
        toys.MODEL.replace("1.0 / (1.0 + counts)", "np.log(0.0 * counts)")
    )
    result = recbench("check-plugin", "--plugin", "bad.py", "rarity")
    assert result.exit_code == 1
    assert "FAIL  One finite score for every user and item" in result.stderr


def test_settings_say_whether_a_model_is_checked_or_the_loss_of_its_name(recbench):
    for text, kind in (("bce[epochs=2]", "model"), ("bce[weight=3]", "loss")):
        result = recbench("check-plugin", text)
        assert result.exit_code == 0, result.output
        assert f"the {kind} {text} passed" in result.stdout
    wrong = recbench("check-plugin", "bce[depth=2]")
    assert wrong.exit_code == 2
    assert "unknown parameter of bce 'depth'" in wrong.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_are_printed(recbench, shell):
    assert "_RECBENCH_COMPLETE" in recbench("completion", shell).stdout


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("recbench run -m deql-l", {"deql-l2", "deql-l2-zero", "deql-l2-sparse", "deql-lowrank"}),
        ("recbench fetch gowalla-s", {"gowalla-snap", "gowalla-strong"}),
        ("recbench run -k ndcg", {"ndcg", "ndcg-ngcf"}),
        ("recbench run -k rbp[", {"rbp[p="}),
        ("recbench run -k ndcg[p", set()),
        ("recbench sh", {"show"}),
        ("recbench run -m als[loss=rg2-", {"als[loss=rg2-matrix", "als[loss=rg2-ssm"}),
        ("recbench run -m als[loss=rg2[al", {"als[loss=rg2[alpha="}),
    ],
)
def test_names_are_completed(words, expected, folder, monkeypatch, capsys):
    monkeypatch.setenv("_RECBENCH_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split()) - 1))
    with pytest.raises(SystemExit):
        main([], prog_name="recbench")
    lines = capsys.readouterr().out.split()
    assert {line.split(",")[1] for line in lines} == expected


def test_show_without_results_is_one_sentence(recbench):
    result = recbench("show")
    assert result.exit_code == 3
    assert "there are no results under results/" in result.stderr
