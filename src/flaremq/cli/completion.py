"""``flaremq completion``: the script that makes a shell complete our commands, options, topics and groups."""

from __future__ import annotations

import click

_SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(_SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print what a shell needs to complete commands, options, topics and groups.

    For bash, in ~/.bashrc: eval "$(flaremq completion bash)"; for zsh the same in ~/.zshrc; for fish:
    flaremq completion fish > ~/.config/fish/completions/flaremq.fish
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None, "click knows these shells"
    click.echo(kind(context.find_root().command, {}, "flaremq", "_FLAREMQ_COMPLETE").source())
