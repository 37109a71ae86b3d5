"""The options of `recbench run`, in the groups its help shows them in."""

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from recbench.cli.common import PATH, complete
from recbench.cli.output import format_options
from recbench.errors import UsageError, unknown

if TYPE_CHECKING:
    from recbench.data.open import OwnFile


def read_config(ctx: click.Context, param: click.Parameter, path: Path | None) -> None:
    """Make a file's words the defaults of the options they name; the command line wins."""
    if path is None or ctx.resilient_parsing:
        return
    import yaml

    from recbench.data.plain_yaml import compose, construct

    try:
        node = compose(path)
        given = None if node is None else construct(node)
    except OSError as error:
        raise UsageError(
            f"-c {path}: {error.strerror}; `recbench run ... --print-config` prints such a file"
        ) from error
    except yaml.YAMLError as error:
        raise UsageError(f"-c {path} is not YAML: {error}") from error
    if not isinstance(given, Mapping):
        raise UsageError(f"-c {path} must be a mapping of options to values, such as `model: ease`")
    words = config_words(ctx.command)
    defaults = {}
    for word, value in given.items():
        if word not in words:
            raise UsageError(f"-c {path}: {unknown('option', str(word), words)}")
        defaults[words[word].name] = _typed(words[word], value, path)
    ctx.default_map = defaults


def config_words(command: click.Command) -> dict[str, click.Option]:
    """The options a file may set, by their long names."""
    return {
        name.lstrip("-"): option
        for option in command.params
        if isinstance(option, click.Option) and option.expose_value and option.flag_value != "json"
        for name in option.opts
        if name.startswith("--")
    }


def _typed(option: click.Option, value: Any, path: Path) -> Any:
    """A YAML value as its option takes it; mappings are KEY=VALUE pairs."""
    if value is None:
        raise UsageError(f"-c {path}: '{option.opts[-1].lstrip('-')}' has no value")
    if isinstance(value, Mapping) and option.multiple:
        return [f"{key}={_plain(item)}" for key, item in value.items()]
    if isinstance(value, list):
        return [_plain(item) for item in value] if option.multiple else _plain(value)
    if isinstance(value, Mapping):
        raise UsageError(f"-c {path}: '{option.opts[-1].lstrip('-')}' takes one value")
    if option.is_flag and isinstance(value, bool):
        return value
    return [_plain(value)] if option.multiple else _plain(value)


def _plain(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


class Jobs(click.ParamType):  # type: ignore[type-arg]
    """A number of processes, or a word that leaves it to the run."""

    name, wanted = "N|auto", "a whole number from 1, or auto"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> int | str:
        """Read either."""
        return "auto" if value == "auto" else click.IntRange(min=1).convert(value, param, ctx)


DATA = [
    click.option("-d", "--dataset", default="debian", show_default=True,
                 shell_complete=complete("datasets"),
                 help="A name of `recbench list datasets`, or synthetic:users=…,items=…; "
                      "synthetic:like=msd is as large as msd."),
    click.option("--data", type=PATH, help="Your own file: csv, tsv, jsonl or parquet."),
    click.option("--user", default="user", show_default=True,
                 help="With --data: the column of users."),
    click.option("--item", default="item", show_default=True,
                 help="With --data: the column of items."),
    click.option("--value", help="With --data: a column of ratings or counts."),
    click.option("--min", "minimum", type=float, help="With --value: what counts as a positive."),
    click.option("--time", help="With --data: a column of times."),
    click.option("--reader", metavar="NAME[KEY=VALUE,...]", shell_complete=complete("readers"),
                 help="With --data: how to read it, such as 'delimited[encoding=latin-1]' or "
                      "adjacency; default: by the end of its name."),
    click.option("--core", type=click.IntRange(min=0), default=0,
                 help="With --data: keep the k-core."),
    click.option("--graph", type=click.Choice(["directed", "undirected"]),
                 help="With --data: users and items are nodes of one graph."),
]  # fmt: skip


OF_FILE = ("user", "item", "value", "minimum", "time", "reader", "core", "graph")
"""The options that say what is in a file given with --data."""


def given_options(*names: str) -> dict[str, str]:
    """Those of some options that were given, by the command line or otherwise, and their flags."""
    ctx, default = click.get_current_context(), click.core.ParameterSource.DEFAULT
    return {
        str(option.name): option.opts[-1]
        for option in ctx.command.params
        if option.name in names and ctx.get_parameter_source(option.name) is not default
    }


def source_of(options: dict[str, Any], elsewhere: Collection[str] = ()) -> "str | OwnFile":
    """The name of a dataset, or a file and what its columns mean.

    Some options may say something of another file, `elsewhere`.
    """
    from recbench.data.open import OwnFile

    given = given_options("dataset", *OF_FILE)
    if options["data"] is None:
        for name in OF_FILE:
            if name in given and name not in elsewhere:
                raise UsageError(f"{given[name]} belongs to --data FILE")
        return str(options["dataset"])
    if "dataset" in given:
        raise UsageError(
            f"{given['dataset']} names a dataset and --data a file; give one of the two"
        )
    return OwnFile(
        options["data"], user=options["user"], item=options["item"], value=options["value"],
        time=options["time"], minimum=options["minimum"], core=options["core"],
        reader=options["reader"], graph=options["graph"],
    )  # fmt: skip


SEVERAL = click.option(
    "-d", "--dataset", multiple=True, default=("debian",), show_default=True,
    shell_complete=complete("datasets"),
    help="A name of `recbench list datasets`, or synthetic:users=…,items=…; repeatable: one after "
         "the other.",
)  # fmt: skip

WHAT = [
    click.option("-m", "--model", multiple=True, shell_complete=complete("models"),
                 help="A name of `recbench list models`, or name[key=value,...]; repeatable."),
    click.option("--set", "sets", multiple=True, metavar="KEY=VALUE",
                 help="Fix a parameter of the models that have it; MODEL.KEY=VALUE is for one. "
                      "What is given for one, or in its brackets, stands."),
    click.option("--grid", multiple=True, metavar="KEY=VALUES",
                 help="Try values: b=0.1:2.0, b=0.1:2:0.1, l2=10:1000:log7 or b=0.1,1; "
                      "several make a product."),
    click.option("--search", metavar="grid|random|tpe|halving",
                 shell_complete=complete("searches"),
                 help="Try every point of the grid, random draws, or what tree-structured Parzen "
                      "estimators propose (an extra); default: random with --trials, else grid. "
                      "With --trials, ranges such as b=0.1:2.0 are searched in full, and a model "
                      "without --grid where `recbench info MODEL` says. "
                      "halving, for models that go in rounds: the grid, or with --trials random "
                      "draws, for a few rounds; the best third goes on for three times as many, "
                      "and so on. halving[eta=4,first=2]: the best quarter; no fewer than 2 "
                      "rounds. What is stopped is never selected."),
    click.option("--trials", type=click.IntRange(min=1), metavar="N",
                 help="So many different settings of each model, drawn at random or by --search."),
    click.option("--time-limit", metavar="TIME",
                 help="Of each model and seed, such as 30m or 1h30m: when its fits, and the "
                      "rankings for validation, have taken so long, no further trial of it "
                      "begins. What was found counts; with more time the same command goes on."),
    click.option("--search-seed", type=int, default=0, show_default=True,
                 help="With --trials: other seeds, other settings."),
    click.option("--split", shell_complete=complete("splits"),
                 help="How to hold out: a name of `recbench list splits`, or name[key=value,...]. "
                      "Default: the dataset's own."),
    click.option("-k", "--metric", multiple=True, shell_complete=complete("metrics"),
                 help="Such as ndcg@100; repeatable. Default: what papers report for the split."),
    click.option("--select", help="The metric that chooses on validation; default: the first."),
    click.option("--seed", default="0", show_default=True,
                 help="Seeds of the models, such as 0,1,2."),
    click.option("--dtype", type=click.Choice(["float32", "float64"]), default="float32",
                 show_default=True, help="Precision of the arithmetic."),
    click.option("--reveal-test", is_flag=True,
                 help="Show test values of every trial; the table says so."),
    click.option("--validate", is_flag=True,
                 help="Measure a model of one setting on validation, too, where the test has a fit "
                      "of its own: on splits that fit again, with what validation held out. "
                      "Nothing is chosen by it, so it is not done by default."),
    click.option("--no-validate", is_flag=True,
                 help="Fit once, on all that the test may be fitted on, and measure the test "
                      "alone: for settings that were chosen before, one of each model."),
]  # fmt: skip

HOW = [
    click.option("-o", "--output", type=PATH,
                 help="Results folder; default results/DATASET-SPLIT."),
    click.option("-j", "--jobs", type=Jobs(), metavar="N|auto", default=1, show_default=True,
                 help="Fit so many groups of trials at once, each in its own process. auto: fit "
                      "alone until it is measured what fits take, then as many at once, with as "
                      "many threads each, as end sooner and have memory; --dry-run says more."),
    click.option("--executor", type=click.Choice(["local", "dask"]), default="local",
                 show_default=True,
                 help="Fit on this machine or on the workers of a Dask cluster."),
    click.option("--scheduler", metavar="ADDRESS",
                 help="With --executor dask: its scheduler, such as tcp://host:8786."),
    click.option("--spread", is_flag=True,
                 help="With --executor dask: have all workers hold each inverse together, where it "
                      "is too large for one machine. --tiles-on-disk is then a folder that all of "
                      "them see, to go on from when one is lost."),
    click.option("--threads", type=click.IntRange(min=1),
                 help="Threads of each process; default: every core, divided by --jobs; on a "
                      "cluster, those that each worker was started with."),
    click.option("--device", default="auto", show_default=True, metavar="WORD",
                 help="Where models compute that PyTorch trains: cpu, or cuda:0 for the first "
                      "graphics processor; auto: that one if there is one. Several with commas "
                      "between them: one for each of the --jobs, in turn."),
    click.option("--tiles-on-disk", type=PATH, metavar="DIR",
                 help="Keep large inverses there instead of in memory; a killed one goes on."),
    click.option("--trace", is_flag=True,
                 help="Keep how fits go: seconds, objective and validation metrics of every round, "
                      "in traces/TRIAL.csv."),
    click.option("--save", type=PATH, metavar="DIR",
                 help="Keep the winners as they were fitted for the test, each in a folder of its "
                      "own, for `recbench recommend --saved`."),
    click.option("--save-lists", type=PATH, metavar="DIR",
                 help="Keep the lists of the test users that they make, as Parquet and as TREC "
                      "run files, with the held-out items as qrels."),
    click.option("-f", "--force", is_flag=True, help="Run trials again that are finished."),
    click.option("--retry-failed", is_flag=True, help="Run trials again that failed."),
    click.option("-n", "--dry-run", is_flag=True,
                 help="Show the trials, and what is known of their memory and time; then stop."),
]  # fmt: skip

OUTPUT = [
    format_options,
    click.option("-q", "--quiet", is_flag=True, help="No progress, just the tables."),
    click.option("-v", "--verbose", is_flag=True,
                 help="A line for every step that is done: inverses, decompositions, rankings; "
                      "what each kind took."),
    click.option("--debug", is_flag=True,
                 help="Stop at the first failing trial with its traceback."),
    click.option("-c", "--config", type=PATH, is_eager=True, expose_value=False,
                 callback=read_config,
                 help="A YAML file of the same words, such as `model: [ease, edlae]`."),
    click.option("--print-config", is_flag=True, help="Print such a file for this command."),
]  # fmt: skip


def sources_of(options: dict[str, Any]) -> "list[str | OwnFile]":
    """What to run on, one after the other: datasets by their names, or one own file."""
    names = [*dict.fromkeys(options["dataset"])]
    if len(names) > 1:
        from recbench.data.open import SYNTHETIC, entry_of

        for name in names:
            if name.partition(":")[0] != SYNTHETIC:
                entry_of(name)  # a name that is wrong is told before anything is run
    return [source_of({**options, "dataset": name}) for name in names]


def with_options(options: Sequence[Callable[..., Any]]) -> Callable[..., Any]:
    """Give a command these options, in this order."""

    def give(function: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            function = option(function)
        return function

    return give


run_options = with_options([SEVERAL, *DATA[1:], *WHAT, *HOW, *OUTPUT])
data_options = with_options(DATA)
file_options = with_options(DATA[1:])
"""Those of an own file, for a command whose argument is the name of a dataset."""


def as_config(ctx: click.Context) -> str:
    """The options that differ from their defaults, as the file -c reads."""
    import yaml

    bare = click.Context(ctx.command)  # in `ctx` the words of a file have become defaults
    settings = {
        word: _written(ctx.params[option.name or ""])
        for word, option in config_words(ctx.command).items()
        if ctx.params.get(option.name or "") not in (option.get_default(bare), (), None)
        and word not in ("print-config", "json")
    }
    return yaml.safe_dump(settings, sort_keys=False, allow_unicode=True)


def _written(value: Any) -> Any:
    if isinstance(value, tuple):
        return [str(item) for item in value]
    return str(value) if isinstance(value, Path) else value
