"""An option is said in one line, and is then everywhere: signature, docstring, command, help and card."""

from __future__ import annotations

import inspect
import re
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import click
import msgspec
import pytest
from click.testing import CliRunner

import chakrakit as ck
from chakrakit.commands import COMMANDS, group
from chakrakit.commands import options as options_module
from chakrakit.commands import simulate as simulate_module
from chakrakit.commands.command import command
from chakrakit.commands.options import Option, Parameter, Positional, parameters_of, public
from chakrakit.commands.simulate import SimulateOptions
from chakrakit.machines import load_machine
from support.paths import ROOT

SHELL_ONLY = {
    "demo": "a list of commands to read",
    "mcp": "a server that agents start",
    "completion": "a script for shells",
}
OTHER_NAMES = {"live": "run_program", "machines": "list_machines"}
"""Rooms have the names `machines` and `live`."""


class AtAltitude(SimulateOptions, total=False):
    """The options of `simulate`, and one more."""

    altitude: Annotated[float, Option("Metres above the sea.", 0.0, group="Where it stands")]


@pytest.fixture
def at_altitude(monkeypatch: pytest.MonkeyPatch) -> Any:
    """`ck.simulate` as it is where its struct has that line."""
    monkeypatch.setattr(simulate_module, "SimulateOptions", AtAltitude)
    return public(AtAltitude)(inspect.unwrap(ck.simulate))


@pytest.fixture
def traces() -> ck.TraceSet:
    t = ck.TraceBuilder()
    t.comp("work", duration_ns=1000)
    return ck.TraceSet([t.build()])


def test_a_line_in_the_struct_is_an_argument(at_altitude: Any) -> None:
    parameter = inspect.signature(at_altitude).parameters["altitude"]
    assert (parameter.kind, parameter.default) == (parameter.KEYWORD_ONLY, 0.0)
    assert parameter.annotation is float
    assert "altitude\n    Metres above the sea.\n" in inspect.getdoc(at_altitude)


def test_and_a_setting_on_the_card_of_a_run(at_altitude: Any, traces: ck.TraceSet) -> None:
    high, low = (at_altitude(traces, "dgx-h100", altitude=metres) for metres in (1500.0, 0.0))
    assert high.run().card.settings["altitude"] == 1500.0
    assert "altitude" not in low.run().card.settings


def test_and_an_option_of_the_command(at_altitude: Any, traces: ck.TraceSet, tmp_path: Any) -> None:
    made = command(at_altitude, without=["workload"])(simulate_module.command.callback)
    told = CliRunner().invoke(made, ["--help"]).output
    assert "Where it stands:\n  --altitude FLOAT  Metres above the sea.  [default: 0.0]" in told
    context = made.make_context("simulate", ["w", "--altitude", "1500"])
    assert context.params["altitude"] == 1500.0


def test_the_change_that_contributing_shows_fits_the_struct() -> None:
    (shown,) = re.findall(
        r"```diff\n@@.*?@@\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(), re.S
    )
    added = [line for line in shown.splitlines() if line.startswith("+")]
    around = "".join(f"{line[1:]}\n" for line in shown.splitlines() if line not in added)
    assert len(added) == 1
    assert around in Path(simulate_module.__file__).read_text()


def test_what_is_asked_for_is_on_the_card(traces: ck.TraceSet) -> None:
    """As plain values, whether they were words or mappings; what was left alone is not said."""
    asked: dict[str, Any] = {"stragglers": ["0=2"], "jitter": 0.1, "assume_missing": "symmetric"}
    settings = ck.simulate(traces, "dgx-h100", **asked).run().card.settings
    assert settings["stragglers"] == {"0": 2.0}
    assert (settings["jitter"], settings["assume_missing"]) == (0.1, "symmetric")
    assert not {"seed", "faults", "communication", "output"} & set(settings)


# --- one option ---------------------------------------------------------------------------------


def parameter(kind: Any, default: Any, **about: Any) -> Parameter:
    return Parameter("two_words", kind, default, Option("What it does.", default, **about))


@pytest.mark.parametrize(
    ("kind", "default", "about", "flags"),
    [
        (int, 1, {}, ["--two-words"]),
        (bool, False, {}, ["--two-words"]),
        (bool, True, {}, ["--two-words/--no-two-words"]),
        (bool | None, None, {}, ["--two-words/--no-two-words"]),
        (str | None, None, {"flags": "-o --output"}, ["-o", "--output"]),
    ],
)
def test_flags_follow_the_name_and_the_type(
    kind: Any, default: Any, about: dict[str, Any], flags: list[str]
) -> None:
    assert parameter(kind, default, **about).spellings == flags


def test_one_alone_is_the_only_one_of_several() -> None:
    several = parameter(tuple[str, ...], ())
    assert several.value_of("a") == several.value_of(["a"]) == ("a",)
    assert several.value_of(letter for letter in "ab") == ("a", "b")


def test_text_is_parsed_and_other_values_are_left_alone() -> None:
    doubled = parameter(
        Any, (), joined=True, parse=lambda text: [2 * int(n) for n in text.split(",")]
    )
    assert doubled.value_of("1,2") == [2, 4]
    assert doubled.value_of([1, 2]) == [1, 2]
    with pytest.raises(ck.ConfigError, match="--two-words x: invalid literal"):
        doubled.value_of("x")


def test_choices_and_limits_hold_in_python_too() -> None:
    with pytest.raises(ck.ConfigError, match="--two-words fast: there are slow, fair"):
        parameter(Literal["slow", "fair"], "slow").value_of("fast")
    with pytest.raises(ck.ConfigError, match="--two-words -1: give 0 to 9"):
        parameter(int, 3, least=0, most=9).value_of(-1)
    for number in ("nan", "inf"):
        with pytest.raises(ck.ConfigError, match=f"--memory {number}: give a finite number"):
            ck.link("recording", memory=float(number))
    with pytest.raises(ck.ConfigError, match="--iterations 0: give 1 or more"):
        ck.replay("run", iterations=0)


def test_an_option_that_does_not_exist_is_refused_by_name() -> None:
    with pytest.raises(ck.ConfigError, match="analyze has no option 'peak_tflop'; did you mean"):
        ck.analyze("run", peak_tflop=3)  # type: ignore[call-arg]


# --- all commands -------------------------------------------------------------------------------

PUBLIC = {c: getattr(ck, OTHER_NAMES.get(c, c)) for c in COMMANDS if c not in SHELL_ONLY}


def command_named(name: str) -> click.Command:
    found = group.get_command(click.Context(group), name)
    assert found is not None
    return found


@pytest.mark.parametrize("name", PUBLIC)
def test_a_function_takes_what_its_command_gives_it(name: str) -> None:
    """Every option that Python has is on the command line, under the name that its function takes."""
    options = {p.name: p for p in command_named(name).params if isinstance(p, click.Option)}
    for parameter in parameters_of(PUBLIC[name]):
        if parameter.option.in_shell and not isinstance(parameter.option, Positional):
            assert parameter.name in options, parameter
            assert parameter.flag in options[parameter.name].opts


@pytest.mark.parametrize("name", PUBLIC)
def test_a_default_has_its_options_type(name: str) -> None:
    for parameter in parameters_of(PUBLIC[name]):
        plain = not parameter.is_required and not isinstance(parameter.type, str)
        if plain and parameter.default not in (None, ()) and get_origin(parameter.type) is None:
            assert msgspec.convert(parameter.default, parameter.type) == parameter.default
        if parameter.choices and not parameter.is_required:
            assert parameter.default in (None, *parameter.choices)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_explained(name: str) -> None:
    bare = [
        p.name for p in command_named(name).params if isinstance(p, click.Option) and not p.help
    ]
    assert bare == []


def test_every_function_can_be_inspected() -> None:
    """Keyword-only options with types and defaults, and no `**options` left."""
    for name, function in PUBLIC.items():
        kinds = inspect.signature(function).parameters.values()
        open_ended = [p.name for p in kinds if p.kind is p.VAR_KEYWORD]
        assert open_ended == (["axes"] if name == "search" else []), name
        assert all(p.annotation is not p.empty for p in kinds)


def test_help_speaks_the_language_of_the_reader() -> None:
    """`--engine` on the command line is `engine` in Python."""
    text = inspect.getdoc(ck.analyze)
    assert "by default one per core with `engine`, else none." in text
    assert get_args(inspect.signature(ck.simulate).parameters["network"].annotation) == (
        "flow",
        "analytical",
    )


def test_help_in_python_is_whole_words_within_its_width() -> None:
    """The longest help of any option, in lines as long as they may be."""
    text = ck.generate.__doc__ or ""
    parameters = text.partition("Parameters\n")[2].partition("\nReturns\n")[0].splitlines()
    assert max(map(len, parameters)) <= 96
    helped = [line for line in parameters if line.startswith("    ")]
    assert all(line == f"    {' '.join(line.split())}" for line in helped)
    for line, after in pairwise(parameters):
        if line.startswith("    ") and after.startswith("    "):
            assert len(line) + 1 + len(after.split()[0]) > 96


def test_what_stands_in_backticks_stays_as_it_is() -> None:
    names = {"--two-words": "two_words"}
    said = "Like --two-words, `chakra x --two-words` and --other-one; -5 and a-b are none."
    python = "Like `two_words`, `chakra x --two-words` and `other_one`; -5 and a-b are none."
    assert options_module._in_python(said, names) == python


def test_a_second_value_of_an_option_is_refused_by_name() -> None:
    """Click would take the last one and forget the first."""
    words = ["simulate", "w", "--machine", "dgx-h100", "--machine", "dgx-h200"]
    result = CliRunner().invoke(group, words)
    assert result.exit_code == 2
    assert "--machine is given 2 times; give it once." in result.output
    repeated = CliRunner().invoke(
        group, ["transform", "w", "--pass", "a", "--pass", "b", "-o", "x"]
    )
    assert "given 2 times" not in repeated.output


def test_a_card_has_plain_values_of_what_was_given() -> None:
    """Paths as texts, what is inside of lists and tables too, and of anything else its name."""
    given = {
        "a": Path("x/y"),
        2: (1.5, Path("z")),
        "machine": load_machine("dgx-h100"),
        "none": None,
    }
    plain = options_module._plain(given)
    assert plain == {"a": "x/y", "2": [1.5, "z"], "machine": "dgx-h100", "none": None}
