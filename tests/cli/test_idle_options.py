"""Options that would change nothing, or contradict each other, are not taken in silence."""

import pytest

OWN = ["--data", "toy.csv", "--user", "u", "--item", "i"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--user", "u"], "--user belongs to --data FILE"),
        (["--user", "user"], "--user belongs to --data FILE"),  # also what is the default
        (["--core", "5"], "--core belongs to --data FILE"),
        (["--time", "t"], "--time belongs to --data FILE"),
        ([*OWN, "-d", "debian"], "--dataset names a dataset and --data a file; give one of"),
        ([*OWN, "--data", "toy.csv"], "--data is given twice, and takes one value"),
        ([*OWN, "--value", "stars"], "--value stars needs --min NUMBER"),
        ([*OWN, "--min", "4"], "--min needs --value COLUMN"),
        ([*OWN, "--time", "t"], "--time t would change nothing: the split 'strong' does not look"),
        ([*OWN, "--time", "t", "--split", "last[by=file]"], "the split 'last' does not look at"),
        (["--seed", "1", "--seed", "2"], "--seed is given twice"),
        (["--select", "ndcg@5", "--select=ndcg@9"], "--select is given twice"),
        ([*OWN, "--user", "v"], "--user is given twice"),
        (["--split", "weak", "--split", "strong"], "--split is given twice"),
    ],
)
def test_a_word_that_would_change_nothing_is_a_sentence(recbench, folder, words, says):
    result = recbench("run", "-m", "popularity", *words)
    assert result.exit_code == 2, result.output
    assert says in result.stderr
    assert "Traceback" not in result.stderr
    assert not (folder / "results").exists()


def test_a_file_of_words_is_held_to_the_same(recbench, folder):
    (folder / "c.yaml").write_text("model: popularity\nuser: u\n")
    assert "--user belongs to --data FILE" in recbench("run", "-c", "c.yaml").stderr
    (folder / "c.yaml").write_text("model: popularity\ndata: toy.csv\nuser: u\nitem: i\n")
    assert recbench("run", "-c", "c.yaml").exit_code == 0
    both = recbench("run", "-c", "c.yaml", "-d", "debian")
    assert "give one of the two" in both.stderr


def test_what_may_be_repeated_may_be_repeated(recbench):
    words = ["-m", "popularity", "-m", "ease", "-k", "ndcg@5", "-k", "ndcg@9", "-q", "-q"]
    assert recbench("run", *OWN, *words).exit_code == 0


def test_the_last_of_two_folders_counts_as_ever(recbench, folder):
    assert recbench("run", *OWN, "-m", "popularity", "-o", "one", "-o", "two").exit_code == 0
    assert (folder / "two").exists()
    assert not (folder / "one").exists()


def test_models_without_randomness_say_so_when_there_are_seeds(recbench):
    told = "nothing in ease, popularity is random: one trial, whatever the seeds"
    words = ["-m", "ease", "-m", "popularity", "-m", "ials[factors=2,iterations=1]"]
    assert told in recbench("run", *OWN, *words, "--seed", "0,1").stderr
    assert "is random" not in recbench("run", *OWN, *words, "--seed", "1").stderr
    drawn = recbench("run", *OWN, "-m", "ials[factors=2,iterations=1]", "--seed", "0,1")
    assert "is random" not in drawn.stderr


def test_parameters_that_change_nothing_are_told_where_they_were_given(recbench):
    run = ["run", *OWN, "-m", "mf[epochs=2,factors=3]", "-n"]
    result = recbench(*run, "--grid", "drawn=1,5,50", "--set", "every=2")
    assert result.exit_code == 0, result.output
    assert result.stderr.count("warning:") == 2
    assert "warning: 'drawn' changes nothing in mf: all items are faced" in result.stderr
    assert "warning: 'every' changes nothing in mf: patience is 0" in result.stderr
    assert "warning" not in recbench(*run).stderr
    used = ["--set", "patience=1", "--set", "every=2", "--set", "negatives=own", "--set", "drawn=5"]
    assert "warning" not in recbench(*run, *used).stderr


def test_without_validation_halving_is_refused_for_that(recbench):
    words = ["-m", "mf", "--search", "halving", "--trials", "4", "--no-validate"]
    result = recbench("run", *OWN, *words)
    assert result.exit_code == 2
    assert "--no-validate leaves it out" in result.stderr
