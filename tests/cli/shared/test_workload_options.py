"""Options made from the fields of a workload: numbers, choices, lists, switches."""

from __future__ import annotations

from typing import Any

import click
import pytest
from click.testing import CliRunner

from chakrakit.cli.shared import field_options
from chakrakit.errors import ConfigError


@click.command()
@click.pass_context
def command(_context: click.Context, **fields: Any) -> None:
    click.echo({name: value for name, value in fields.items() if value is not None})


for option in field_options():
    option(command)


@pytest.mark.parametrize(
    ("words", "given"),
    [
        ((), {}),
        (("--dp", "4"), {"dp": 4}),
        (("--schedule", "1f1b"), {"schedule": "1f1b"}),
        (("--split", "8,8,7"), {"split": [8, 8, 7]}),
        (("--no-tied",), {"tied": False}),
        (("--micro-batch", "2"), {"micro_batch": 2}),
    ],
)
def test_words_become_values_of_the_fields_type(words: tuple[str, ...], given: dict) -> None:
    assert CliRunner().invoke(command, words).output == f"{given}\n"


def test_a_list_of_words_is_refused_with_an_example() -> None:
    with pytest.raises(ConfigError, match="--split a: give whole numbers with commas, like 8,8,7"):
        CliRunner().invoke(command, ["--split", "a"], catch_exceptions=False)


def test_every_option_is_explained() -> None:
    assert [p.name for p in command.params if not p.help] == []
