"""`recbench completion`."""

import click
from click.shell_completion import get_completion_class


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the script that completes commands, options and names in SHELL.

    \b
    bash: eval "$(recbench completion bash)"                       in ~/.bashrc
    zsh:  eval "$(recbench completion zsh)"                        in ~/.zshrc
    fish: recbench completion fish > ~/.config/fish/completions/recbench.fish
    """
    from recbench.cli import main

    maker = get_completion_class(shell)
    assert maker is not None
    click.echo(maker(main, {}, "recbench", "_RECBENCH_COMPLETE").source())
