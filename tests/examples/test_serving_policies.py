"""The example policies run as they stand, stay short, and do what they promise."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from chakrakit.serving.policies import NAMES
from support.paths import EXAMPLES

FILES = sorted((EXAMPLES / "serving").glob("*.py"))


def printed(file: Path, capsys: pytest.CaptureFixture[str]) -> list[float]:
    """The first number of each line that an example prints."""
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.main()
    lines = capsys.readouterr().out.splitlines()
    found = [re.search(r": [^\d]*([\d.,]+)", line) for line in lines]
    return [float(f[1].replace(",", "")) for f in found if f]


def test_there_is_an_example_for_every_decision() -> None:
    text = "".join(file.read_text() for file in FILES)
    assert all(f"def {name}(" in text for name in NAMES)
    assert all(len(file.read_text().splitlines()) < 60 for file in FILES)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "better"),
    [
        ("admit_by_room", "less"),
        ("evict_newest", "more"),
        ("place_by_room", "less"),
        ("shortest_first", "less"),
    ],
)
def test_a_policy_helps(name: str, better: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The second line is the policy's: urgent requests sooner, more hits, less on the fullest."""
    usual, own = printed(EXAMPLES / "serving" / f"{name}.py", capsys)[:2]
    assert own < usual if better == "less" else own > usual


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["exit_early", "fork_and_join", "any_service", "hold_by_tokens", "fair_tenants"]
)
def test_a_change_helps(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The second line is that with the change: sooner done, or less uneven."""
    usual, own = printed(EXAMPLES / "serving" / f"{name}.py", capsys)[:2]
    assert own < usual


@pytest.mark.slow
def test_a_codec_by_bandwidth_is_as_good_as_the_best(capsys: pytest.CaptureFixture[str]) -> None:
    *alone, chosen = printed(EXAMPLES / "serving" / "codec_by_bandwidth.py", capsys)
    assert chosen <= min(alone)


@pytest.mark.slow
def test_a_border_that_moves_finds_more(capsys: pytest.CaptureFixture[str]) -> None:
    stays, moves = printed(EXAMPLES / "serving" / "divide_memory.py", capsys)[:2]
    assert moves > stays


@pytest.mark.slow
def test_a_codec_by_length_is_better_than_either(capsys: pytest.CaptureFixture[str]) -> None:
    *alone, chosen = printed(EXAMPLES / "serving" / "store_codec_by_length.py", capsys)
    assert chosen < min(alone)


OTHERS = (
    "migrate_to_idle",
    "rank_fails",
    "reshape_with_load",
    "start_cheapest",
    "tool_calls",
    "two_caches",
)


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHERS)
def test_examples_of_clusters_run(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert len(printed(EXAMPLES / "serving" / f"{name}.py", capsys)) >= 2


@pytest.mark.parametrize("name", ["preempt_cheapest", "scale_with_load", "sticky_router"])
def test_the_others_run(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert len(printed(EXAMPLES / "serving" / f"{name}.py", capsys)) >= 2
