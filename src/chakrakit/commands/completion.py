"""`completion`: the script that lets a shell complete commands and options."""

from __future__ import annotations

from typing import Annotated, Literal

import click

from chakrakit.commands.command import command as command_of
from chakrakit.commands.options import Positional


@command_of()
def command(shell: Annotated[Literal["bash", "zsh", "fish"], Positional("Your shell.")]) -> None:
    """Print the completion script for a shell.

    \b
    bash   echo 'eval "$(chakra completion bash)"' >> ~/.bashrc
    zsh    echo 'eval "$(chakra completion zsh)"' >> ~/.zshrc
    fish   chakra completion fish > ~/.config/fish/completions/chakra.fish

    \b
    chakra completion bash
    chakra completion fish
    """
    from click.shell_completion import get_completion_class

    from chakrakit.commands import group

    complete = get_completion_class(shell)
    assert complete is not None, "click knows the three"
    script = (
        complete.source_template % complete(group, {}, "chakra", "_CHAKRA_COMPLETE").source_vars()
    )
    click.echo(script)
