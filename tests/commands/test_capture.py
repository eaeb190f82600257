"""`chakra capture`: its options; tests/sources/capture has what comes out."""

from __future__ import annotations

import pytest

from support.commands import chakra


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--", "python", "t.py"), "give --ranks N"),
        (("--jax", "model:step"), "give --mesh, such as 4x4"),
        (("--ranks", "0", "--", "python", "t.py"), "0 is not in the range x>=1"),
        (("--ranks", "2", "-o", "t", "--value", "t.py:3=x", "--", "python", "t.py"), "t.py:12=0.5"),
        (("--ranks", "2", "-o", "t", "--value", "0.5", "--", "python", "t.py"), "t.py:12=0.5"),
    ],
)
def test_what_is_missing_or_wrong_is_said(words: tuple[str, ...], said: str) -> None:
    done = chakra("capture", *words)
    assert done.exit_code == 2
    assert said.replace("t.py:12", "train.py:12") in done.stderr
