"""`--engine` and `--jobs` on a command."""

from __future__ import annotations

import click
from click.testing import CliRunner

from chakrakit.cli.shared import engine_option, workers_options


@click.command()
@workers_options
def both(engine: str | None, jobs: int | None) -> None:
    click.echo(f"{engine} {jobs}")


@click.command()
@engine_option
def one(engine: str | None) -> None:
    click.echo(engine)


def test_both_options_are_added_and_empty_by_default() -> None:
    assert CliRunner().invoke(both, []).output == "None None\n"
    assert CliRunner().invoke(both, ["--engine", "ray", "--jobs", "3"]).output == "ray 3\n"


def test_jobs_are_one_or_more() -> None:
    done = CliRunner().invoke(both, ["--jobs", "0"])
    assert done.exit_code == 2
    assert "0 is not in the range x>=1" in done.output


def test_an_engine_alone_has_no_jobs() -> None:
    assert CliRunner().invoke(one, ["--jobs", "3"]).exit_code == 2
