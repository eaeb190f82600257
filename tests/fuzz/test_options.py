"""Every number that a command line can hold is taken, or refused with a word: none ends in a traceback."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec
import pytest

import chakrakit as ck
from chakrakit.commands import group
from chakrakit.serving.engine import PRESETS
from fuzz.formats.descriptions import SIMPLE_CAMPAIGN
from fuzz.formats.traces import run, traces
from support.commands import chakra

NUMBERS = (
    "0", "-1", "0.5", "-0.0", "nan", "inf", "1e308", "1e-320", str(2**31), str(2**40), str(2**63),
    "1" * 400, "", "x", "0,0",
)  # fmt: skip
_STREAM = "--requests poisson{rate=4,prompt=12,output=3,n=3}"
_SERVE = f"serve --model gpt3-125m --machine dgx-h100 {_STREAM}"
LINES = {
    "serve": _SERVE,
    "serve apart": f"{_SERVE} --prefill 1 --decode 1",
    "generate": "generate --model gpt3-125m --seq 16 --layers 1 --dry-run",
    "generate experts": "generate --model deepseek-v3 --layers 1 --seq 16 --dp 4 --ep 4 --dry-run",
    "search": f"search --serve --model gpt3-125m --machine dgx-h100 {_STREAM} --gpus 2 --slo ttft=500",
    "simulate": "simulate {in}/w --machine dgx-h100",
    "collective": "collective all-reduce --machine dgx-h100 --members 4 --sizes 1KiB,1MiB",
    "campaign": "campaign {in}/job.yaml --histories 2",
    "analyze": "analyze {in}/run",
}
_LISTS = {"--gpus", "--tp", "--pp", "--ep", "--batch-tokens", "--batch-requests", "--clock"}
"""Options of several numbers, which are text to the parser."""
_PROCESSES = {"--jobs"}


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the commands read."""
    folder = tmp_path_factory.mktemp("in")
    ck.write(traces(), folder / "w")
    run(folder)
    (folder / "job.yaml").write_text(SIMPLE_CAMPAIGN)
    return folder


def _numeric(command: str) -> Iterator[str]:
    """The options of a command that take numbers."""
    found = group.get_command(click.Context(group), command)
    assert found is not None
    for option in found.params:
        names = {n for n in option.opts if n.startswith("--")}
        numbers = isinstance(option.type, click.types.IntParamType | click.types.FloatParamType)
        if isinstance(option, click.Option) and (numbers or names & _LISTS) and not option.is_flag:
            yield from sorted(names - _PROCESSES)[:1]


def _ended_on_purpose(*words: str) -> str:
    """What is wrong with how a command line ended; nothing if it stood."""
    done = chakra(*words)
    meant = done.exception is None or isinstance(done.exception, SystemExit)
    if meant and done.exit_code in (0, 2) and "Traceback" not in done.output:
        return ""
    return f"{' '.join(words)[:200]}: {done.exception!r}"


@pytest.mark.slow
@pytest.mark.parametrize("line", LINES.values(), ids=LINES)
def test_no_number_of_an_option_is_a_traceback(line: str, given: Path) -> None:
    words = shlex.split(line.replace("{in}", str(given)))
    assert _ended_on_purpose(*words) == ""
    wrong = []
    for option in _numeric(words[0]):
        at = words.index(option) if option in words else len(words)
        rest = [*words[:at], *words[at + 2 :]]
        wrong += [said for n in NUMBERS if (said := _ended_on_purpose(*rest, f"{option}={n}"))]
    assert wrong == []


@pytest.mark.slow
@pytest.mark.parametrize("engine", PRESETS)
def test_no_number_of_an_engine_is_a_traceback(engine: str) -> None:
    options = [f.name for f in msgspec.structs.fields(PRESETS[engine])]
    assert len(options) > 10
    lines = [f"{engine}{{{name}={n}}}" for name in options for n in (*NUMBERS, "[0]", f"[{2**63}]")]
    wrong = [said for e in lines if (said := _ended_on_purpose(*_SERVE.split(), "--engine", e))]
    assert wrong == []
