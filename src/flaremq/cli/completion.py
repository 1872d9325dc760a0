"""``flaremq completion``: the script that makes a shell complete our commands, options and topics."""

from __future__ import annotations

import click

from flaremq.cli.parameters import debug_option

_SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(_SHELLS))
@debug_option
def completion(shell: str) -> None:
    """Print what a shell needs to complete commands, options and topics.

    For bash, in ~/.bashrc: eval "$(flaremq completion bash)"; for zsh the same in ~/.zshrc; for fish:
    flaremq completion fish > ~/.config/fish/completions/flaremq.fish
    """
    from click.shell_completion import get_completion_class

    from flaremq.cli.main import flaremq

    kind = get_completion_class(shell)
    assert kind is not None, "click knows these shells"
    click.echo(kind(flaremq, {}, "flaremq", "_FLAREMQ_COMPLETE").source())


def complete_topic(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Names of topics that begin so. Nothing at all where no name server answers: a shell waits for us."""
    from flaremq.cli.admin.topic import kind_of, read_topics

    try:
        topics, own_names = read_topics(context.params.get("name_servers") or _default_name_server(context))
    except Exception:  # whatever it is, the command itself will say it better
        return []
    wanted = (name for name in topics if name.startswith(incomplete))
    return [name for name in wanted if incomplete or kind_of(name, own_names) == "user"]


def _default_name_server(context: click.Context) -> str:
    for parameter in context.command.params:
        if parameter.name == "name_servers":
            return str(parameter.value_from_envvar(context) or parameter.get_default(context))
    return ""
