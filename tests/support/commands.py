"""Command lines run in this process, as the shell would run them."""

from __future__ import annotations

import json
from typing import Any

from click.testing import CliRunner, Result

from chakrakit.commands import main


class _Main:
    """What `CliRunner` asks for, around `main`, so that errors become exit codes as they do for a user."""

    name = "chakra"

    def main(self, args: list[str], prog_name: str, **_: object) -> object:
        return main(list(args))


def chakra(*words: object, input: str | bytes | None = None) -> Result:
    """Runs `chakra WORDS`: exit code, standard output and standard error."""
    typed = [str(word) for word in words]
    return CliRunner().invoke(_Main(), typed, input=input)  # type: ignore[arg-type]


def succeeded(*words: object) -> str:
    """What a command prints that must succeed."""
    done = chakra(*words)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.stderr
    return done.stdout


def data(*words: object) -> Any:
    """What a command that must succeed prints with `--json`."""
    return json.loads(succeeded(*words, "--json"))
