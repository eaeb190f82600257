"""A command's options are the arguments of its function.

Names map by rule: `--two-words` is `two_words`, `-o` is `output`, a repeated option (`--fault`) is a plural
(`faults`), `--no-x` is `x`, and `--json` has no counterpart. What differs otherwise is in one of the
tables below with its reason, so that an option of one side cannot be forgotten on the other.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

import click
import pytest

import chakrakit as ck
from chakrakit.cli import COMMANDS, group
from chakrakit.serving.plan import Layout
from chakrakit.serving.session import serving_of
from chakrakit.simulator.astra import AstraOptions
from chakrakit.workloads.models import field_types

FUNCTIONS: dict[str, tuple[Callable[..., Any], ...]] = {
    "machines": (ck.list_machines,),  # `chakrakit.machines` is a room
    "simulate": (ck.simulate, ck.simulate_jobs),  # several workloads are jobs of one machine
    "capture": (
        ck.capture,
        ck.capture_jax,
    ),  # --jax compiles a function instead of running a program
    "transform": (ck.transform, ck.list_passes),  # --list
}
"""Commands whose functions are not the one of the same name."""
SHELL_ONLY = {"demo": "a list of commands to read", "completion": "a script for shells"}

KEYWORDS: dict[str, Iterable[str]] = {
    "generate": field_types(),
    "simulate": ("groups", *inspect.signature(AstraOptions).parameters),
    "serve": (
        *(n for n in inspect.signature(serving_of).parameters if n != "layout"),
        *inspect.signature(Layout).parameters,
    ),
    "search": (
        *("tp", "pp", "cp", "ep", "micro_batch", "data", "recompute", "schedule"),
        *("batch_tokens", "batch_requests", "pools"),
    ),
}
"""What functions take as further keywords: each of them is an option of the command."""

RENAMED = {
    ("*", "path"): {"traces", "run", "study", "job", "workload", "path"},  # may also be an object
    ("view", "paths"): {"runs"},
    ("simulate", "workloads"): {"workload", "workloads"},
    ("validate", "all"): {"everything"},  # `all` and `pass` are Python's
    ("transform", "pass"): {"passes"},
    ("transform", "passes"): {"file"},
    ("collect", "output"): {"directory"},
    ("capture", "jax"): {"fn"},
    ("capture", "program"): {"shapes"},
}
"""(command, option) → the names it has in Python."""

PRINTING = {
    ("link", "report"),  # the function gives the whole report
    ("analyze", "rows"),
    ("compare", "rows"),
    ("generate", "dry_run"),  # nothing is made before it is asked for
    ("simulate", "astra_log"),
}
"""Options that only say how much is printed."""

SAID_OTHERWISE = {
    ("validate", "fix"),  # given by `output`, which the command asks for as well
    ("bundle", "check"),  # what happens without `output`
    ("compare", "also_a"),  # `a` and `b` may be lists
    ("compare", "also_b"),
    ("search", "axis"),  # a keyword of any name
    ("transform", "list"),  # `ck.list_passes`
    ("collect", "program"),  # the body of the `with` statement
}
"""Options that Python says in another way."""

PYTHON_ONLY = {
    "progress",  # the command draws a bar
    "wait_s",  # of `collect`: in a program that goes on after the recording
    "faults",  # of `serve`: a list of times, engines and factors, which the command line has no word for
}
"""Parameters without an option."""


def options_of(command: str) -> dict[str, set[str]]:
    """Each option of a command with the names it may have in Python."""
    found = group.get_command(click.Context(group), command)
    assert found is not None
    names = [max(p.opts, key=len).lstrip("-").replace("-", "_") for p in found.params]
    return {name: spellings(command, name) for name in names if name != "json"}


def spellings(command: str, name: str) -> set[str]:
    found = {name, f"{name}s", name.removeprefix("no_")}
    return found | RENAMED.get((command, name), set()) | RENAMED.get(("*", name), set())


def parameters_of(command: str) -> set[str]:
    functions = FUNCTIONS.get(command) or (getattr(ck, command),)
    named = {
        name
        for function in functions
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind is not parameter.VAR_KEYWORD
    }
    return named | set(KEYWORDS.get(command, ()))


@pytest.mark.parametrize("command", [c for c in COMMANDS if c not in SHELL_ONLY])
def test_every_option_is_an_argument(command: str) -> None:
    known = parameters_of(command)
    left = {name for name, names in options_of(command).items() if not names & known}
    assert {n for n in left if (command, n) not in PRINTING | SAID_OTHERWISE} == set()


@pytest.mark.parametrize("command", [c for c in COMMANDS if c not in SHELL_ONLY])
def test_every_argument_is_an_option(command: str) -> None:
    spelled = set().union(*options_of(command).values())
    assert parameters_of(command) - spelled - PYTHON_ONLY == set()


def test_the_tables_name_nothing_that_is_gone() -> None:
    asked = {(c, n) for c in COMMANDS for n in options_of(c)}
    listed = {key for key in RENAMED if key[0] != "*"} | PRINTING | SAID_OTHERWISE
    assert listed - asked == set()
