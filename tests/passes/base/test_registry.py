"""Passes by name: each is found where the table says, and an unknown name gets the nearest ones."""

from __future__ import annotations

import pytest

import chakrakit.passes
from chakrakit.errors import ConfigError
from chakrakit.passes.base import PASSES, Pass, pass_class


def test_a_name_is_a_class_and_an_unknown_one_names_the_nearest():
    assert pass_class("scale-ranks").__name__ == "ScaleRanks"
    with pytest.raises(ConfigError, match="no pass 'compct'; did you mean 'compact'"):
        pass_class("compct")


@pytest.mark.parametrize("name", PASSES)
def test_every_pass_says_what_it_is_and_what_it_preserves(name):
    kind = pass_class(name)
    assert issubclass(kind, Pass)
    assert (kind.name, bool(kind.preserves), bool(kind.__doc__)) == (name, True, True)
    assert getattr(chakrakit.passes, kind.__name__) is kind
