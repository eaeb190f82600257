"""Replica groups in all the forms that HLO writes them in."""

import pytest

from chakrakit.errors import FormatError
from chakrakit.sources.xla.hlo_replicas import parse_groups, parse_pairs


@pytest.mark.parametrize(
    ("text", "groups"),
    [
        ("{{0,1},{2,3}}", ((0, 1), (2, 3))),
        ("{}", ()),
        ("[2,2]<=[4]", ((0, 1), (2, 3))),
        ("[4,2]<=[2,4]T(1,0)", ((0, 4), (1, 5), (2, 6), (3, 7))),
        ("mesh['x'=2,'y'=2] {'y'}", ((0, 1), (2, 3))),
        ("mesh['x'=2,'y'=2] {'x'}", ((0, 2), (1, 3))),
        ("mesh['x'=4] {'x':(2)2}", ((0, 1), (2, 3))),
        ("mesh['x'=2,'y'=2], device_ids=(3,2,1,0) {'y'}", ((3, 2), (1, 0))),
    ],
)
def test_every_form(text, groups):
    assert parse_groups(text) == groups


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[2,2]<=[5]", "do not fit each other"),
        ("[2,2]<=[2,2]T(0,0)", "which is not an order"),
        ("[99999999,9]<=[99999999,9]", "do not fit each other"),
        ("mesh['x'=2] {'x':(3)1}", "part 3:1 of an axis of 2"),
        ("mesh??", "in an unknown form"),
    ],
)
def test_groups_that_cannot_be_are_refused(text, problem):
    with pytest.raises(FormatError, match=problem):
        parse_groups(text)


def test_pairs_are_pairs():
    assert parse_pairs("{{0,1},{1,2}}") == ((0, 1), (1, 2))
    with pytest.raises(FormatError, match="are not pairs"):
        parse_pairs("{{0,1,2}}")
