"""What `--requests` may be: a stream, a file, or a process."""

from __future__ import annotations

from pathlib import Path

import pytest

from chakrakit.errors import ConfigError
from chakrakit.serving.requests import requests_from, stream_of


def test_a_stream_is_itself() -> None:
    stream = stream_of([0.0], [1], [1])
    assert requests_from(stream) is stream


def test_a_seed_given_beside_the_text_wins() -> None:
    text = "poisson{n=5, seed=1}"
    own, other = requests_from(text), requests_from(text, seed=2)
    assert own.arrival_ps.tolist() != other.arrival_ps.tolist()
    assert other.arrival_ps.tolist() == requests_from("poisson{n=5, seed=2}").arrival_ps.tolist()


def test_a_file_wins_over_a_process_of_its_name(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("poisson").write_text('{"at": 0, "prompt": 77, "output": 1}')
    assert requests_from("poisson").prompt.tolist() == [77]


def test_a_field_that_is_unknown_comes_with_those_that_are() -> None:
    with pytest.raises(ConfigError, match="unknown field `promt`; did you mean 'prompt'"):
        requests_from("poisson{promt=4}")
