"""`recbench recommend`."""

from typing import TYPE_CHECKING, Any

import click

from recbench.cli.common import PATH, Bars, complete, plugin_option, print_json, say
from recbench.cli.output import format_options, show_views
from recbench.cli.run_options import OF_FILE, data_options, given_options, source_of
from recbench.errors import UsageError, counted

if TYPE_CHECKING:
    from recbench.models.save import Recommender

MANY = 20
"""Users whose lists are printed; more are for a file."""
WAYS = ("users", "for_file", "typed_histories", "histories")
"""How to say for whom."""
HISTORIES = {"--history": "typed_histories", "--histories": "histories"}
"""Those that say what somebody has."""


@click.command()
@click.option("-m", "--model", shell_complete=complete("models"),
              help="Fit this on all there is, such as 'ease[l2=80]'.")  # fmt: skip
@click.option("--saved", type=PATH, metavar="DIR", help="Or take a model that `run --save` wrote.")
@data_options
@click.option("--for", "users", multiple=True, metavar="USER",
              help="A user of the data; repeatable. Default: all of them.")  # fmt: skip
@click.option("--for-file", type=PATH, help="Users of the data, one on each line.")
@click.option("--history", "typed_histories", multiple=True, metavar="ITEM,ITEM",
              help="Instead of a user: what somebody has; repeatable.")  # fmt: skip
@click.option("--histories", type=PATH,
              help="The same for many, from a csv or parquet file with the columns --user and "
                   "--item.")  # fmt: skip
@click.option("-n", "--number", type=click.IntRange(min=1), default=10, show_default=True,
              help="Items for each.")  # fmt: skip
@click.option("--names", type=PATH,
              help="A csv or parquet file of names: items in the first column, names in the "
                   "second.")  # fmt: skip
@click.option("-o", "--output", type=PATH, help="Write to FILE.csv, .json, .jsonl or .parquet.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True,
              help="Seed of the model.")  # fmt: skip
@format_options
@click.option("-q", "--quiet", is_flag=True, help="No progress.")
@plugin_option
@click.pass_context
def command(ctx: click.Context, /, **options: Any) -> None:
    """Recommend items to users, or to whoever has what you say.

    Nobody is recommended what he has. A model that is named is fitted on all of the data, with
    nothing held out.

    \b
    recbench recommend -m "ease[l2=80]" --history bash,python3
    recbench recommend -m ials --data my.csv --user u --item i --for alice --for bob
    recbench recommend --saved models/ease -n 20 -o lists.parquet
    """
    from recbench.models import recommend
    from recbench.report.tables import View

    _check(options)
    if options["output"] is not None:
        recommend.check_form(options["output"])
    with Bars(not options["quiet"]) as bars:
        model = _model(options, bars)
        wanted = _wanted(options, model)
        frame = recommend.lists(
            model, k=options["number"], progress=lambda d, t: bars("ranking", d, t), **wanted
        )
    if options["output"] is not None:
        recommend.write(frame, options["output"])
        say(f"{counted(frame['user'].nunique(), 'list')}: {options['output']}")
    elif options["kind"] == "json":
        print_json(frame.to_dict("records"))
    elif options["kind"] == "csv":
        click.echo(frame.to_csv(index=False), nl=False)
    else:
        show_views([View(f"Recommended by {model.model}", frame)], options["kind"])


def _check(options: dict[str, Any]) -> None:
    """Refuse what does not go together, before anything is opened."""
    from recbench.registry import MODELS, build

    if options["model"] is not None and options["saved"] is not None:
        raise UsageError("--model fits a model and --saved takes one: give one of the two")
    if options["model"] is None and options["saved"] is None:
        raise UsageError(
            "which model? name one to fit, as in -m ease, or a folder of one with --saved; "
            "`recbench list models` shows all"
        )
    if sum(bool(options[way]) for way in WAYS) > 1:
        raise UsageError(
            "users or histories, typed or in a file: give one of --for, --for-file, --history and "
            "--histories"
        )
    if options["time"] is not None:
        raise UsageError(
            f"--time {options['time']} would change nothing: a model is fitted on all there is, "
            "and nothing is split; leave it out"
        )
    if options["model"] is not None:
        model = build(options["model"], MODELS)
        way = next((word for word, name in HISTORIES.items() if options[name]), None)
        if model.trained_users_only and way is not None:
            raise UsageError(
                f"{model.name} knows the users it is trained on, and nobody by what he has: give "
                f"users of the data, as in --for NAME, instead of {way}"
            )
        return
    given = given_options("dataset", "data", "seed", *OF_FILE)
    for name in given.keys() - _of_histories(options):
        raise UsageError(f"{given[name]} belongs to --model; a saved model has its data")


def _of_histories(options: dict[str, Any]) -> set[str]:
    """Options that say what is in the file of histories, if there is one."""
    return set() if options["histories"] is None else {"user", "item"}


def _model(options: dict[str, Any], bars: Bars) -> "Recommender":
    """The model, read or fitted."""
    from recbench.campaign.worker import compute_threads
    from recbench.data.open import Access, open_source
    from recbench.environment import usable_cores
    from recbench.models.context import Context
    from recbench.models.save import fit, load

    if options["saved"] is not None:
        model = load(options["saved"])
        _check_number(options, 0 if model.people is None else len(model.people.ids))
        return model
    data = open_source(source_of(options, _of_histories(options)), Access(announce=say))
    _check_number(options, data.n_users)
    context = Context(seed=options["seed"], threads=usable_cores(), progress=bars)
    with compute_threads(context.threads):
        return fit(options["model"], data, context)


def _wanted(options: dict[str, Any], model: "Recommender") -> dict[str, Any]:
    """For whom, and what items are called."""
    from recbench.models import recommend

    wanted: dict[str, Any] = {}
    if options["names"] is not None:
        wanted["names"] = recommend.read_names(options["names"])
    if options["typed_histories"]:
        histories = {text: text.split(",") for text in options["typed_histories"]}
        if any(not text.strip(" ,") for text in histories):
            raise UsageError("--history is empty; name items, as in --history bash,python3")
        wanted["histories"] = {
            text: recommend.typed([word.strip() for word in words if word.strip()], model.items)
            for text, words in histories.items()
        }
    elif options["histories"] is not None:
        columns = options["user"], options["item"]
        read = recommend.read_histories(options["histories"], *columns, model.items)
        wanted["histories"], others = recommend.known(read, model)
        if others:
            say(f"{counted(others, 'interaction')} with items that the model does not have")
    elif model.people is not None:
        ids = model.people.ids
        if options["for_file"] is not None:
            wanted["users"] = recommend.read_users(options["for_file"], ids)
        elif options["users"]:
            wanted["users"] = recommend.typed(options["users"], ids)
    return wanted


def _check_number(options: dict[str, Any], everybody: int) -> None:
    """Refuse to fill a screen with lists, before they are made."""
    some = any(options[way] for way in WAYS)
    if not some and everybody > MANY and options["output"] is None and options["kind"] == "rich":
        raise UsageError(
            f"these are lists for {everybody:,} users: give a file to write them to, as in -o "
            "lists.csv, or say --for whom"
        )
