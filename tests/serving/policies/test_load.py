"""A policy by name: `FILE.py:CLASS`, or `package.module:CLASS`."""

from __future__ import annotations

from pathlib import Path

import pytest

from chakrakit.errors import ConfigError
from chakrakit.serving import policy_from


def test_a_class_of_a_file_is_made(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text("class Mine:\n    interval_s = 0.25\n")
    assert policy_from(f"{path}:Mine").interval_s == 0.25


def test_a_class_of_a_module_is_made() -> None:
    assert policy_from("collections:OrderedDict") == {}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("mine.py", "should look like FILE.py:CLASS"),
        ("mine.py:", "should look like FILE.py:CLASS"),
        ("nowhere.py:Mine", "no file nowhere.py"),
        ("no_such_module_here:Mine", "No module named 'no_such_module_here'"),
        ("collections:Ordered", "collections has no class Ordered"),
    ],
)
def test_what_names_no_class_is_refused(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        policy_from(text)


def test_a_policy_that_is_not_python_names_its_line(tmp_path):
    (tmp_path / "p.py").write_text("class Mine:\n    def route(:\n")
    with pytest.raises(ConfigError, match=r"p\.py, line 2: "):
        policy_from(f"{tmp_path / 'p.py'}:Mine")
