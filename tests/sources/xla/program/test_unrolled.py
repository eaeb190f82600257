"""A module as one list of steps: calls inlined, loops unrolled, results followed through tuples."""

from __future__ import annotations

import pytest

from chakrakit.errors import FormatError
from chakrakit.sources.xla import parse_hlo
from chakrakit.sources.xla import rows as unrolled
from chakrakit.sources.xla.rows import Unrolled

HEAD = "HloModule m\n\n"
LOOP = """\
%body (p: (f32[4], f32[4])) -> (f32[4], f32[4]) {
  %p = (f32[4], f32[4]) parameter(0)
  %l = f32[4] get-tuple-element(%p), index=0
  %r = f32[4] get-tuple-element(%p), index=1
  %sum = f32[4] add(%l, %r)
  ROOT %out = (f32[4], f32[4]) tuple(%r, %sum)
}

%cond (p.1: (f32[4], f32[4])) -> pred[] {
  %p.1 = (f32[4], f32[4]) parameter(0)
  ROOT %t = pred[] constant(true)
}

ENTRY %main (a: f32[4]) -> f32[4] {
  %a = f32[4] parameter(0)
  %b = f32[4] negate(%a)
  %in = (f32[4], f32[4]) tuple(%a, %b)
  %w = (f32[4], f32[4]) while(%in), condition=%cond, body=%bodyTRIPS
  ROOT %last = f32[4] get-tuple-element(%w), index=1
}
"""
TRIPS = ', backend_config={"known_trip_count":{"n":"3"}}'


def steps(text):
    found = Unrolled(parse_hlo((HEAD + text).encode()))
    return [(s.instruction.name, sorted(s.after), s.kind) for s in found.steps], found.warnings


def test_rounds_of_a_loop_take_what_the_one_before_put_into_each_part():
    """Fibonacci: each sum adds the two made before it."""
    found, warnings = steps(LOOP.replace("TRIPS", TRIPS))
    assert found == [
        ("b", [], "compute"),
        ("sum", [0], "compute"),
        ("sum", [0, 1], "compute"),
        ("sum", [1, 2], "compute"),
    ]
    assert warnings == {}


def test_a_loop_of_unknown_length_runs_once_and_is_said():
    found, warnings = steps(LOOP.replace("TRIPS", ""))
    assert [name for name, _, _ in found] == ["b", "sum"]
    assert list(warnings) == ["w: how often the loop runs is not known; once is taken"]


def test_of_a_conditional_the_first_branch_runs():
    text = """\
%one (x: f32[4]) -> f32[4] {
  ROOT %x = f32[4] parameter(0)
}

%two (y: f32[4]) -> f32[4] {
  %y = f32[4] parameter(0)
  ROOT %n = f32[4] negate(%y)
}

ENTRY %main (a: f32[4], i: s32[]) -> f32[4] {
  %a = f32[4] parameter(0)
  %i = s32[] parameter(1)
  %c = f32[4] conditional(%i, %a, %a), branch_computations={%two, %one}
  ROOT %e = f32[4] exponential(%c)
}
"""
    found, warnings = steps(text)
    assert found == [("n", [], "compute"), ("e", [0], "compute")]
    assert list(warnings) == ["c: of a conditional the first branch is taken"]


def test_an_asynchronous_collective_starts_and_is_done():
    text = """\
%wrapped (q: f32[4]) -> f32[8] {
  %q = f32[4] parameter(0)
  ROOT %gather = f32[8] all-gather(%q), replica_groups={{0,1}}, dimensions={0}
}

ENTRY %main (a: f32[4]) -> f32[8] {
  %a = f32[4] parameter(0)
  %s = ((f32[4]), f32[8]) async-start(%a), calls=%wrapped
  %n = f32[4] negate(%a), control-predecessors={%s}
  ROOT %d = f32[8] async-done(%s)
}
"""
    found, _ = steps(text)
    assert found == [("s", [], "start"), ("n", [0], "compute"), ("d", [0], "done")]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("body=%body", "body=%gone", "'gone' is called and not in the module"),
        ("body=%bodyTRIPS", "body=%main", "nested too deep"),
        ('"n":"3"', '"n":"999"', "more than 900 instructions once loops are unrolled"),
    ],
)
def test_a_loop_that_cannot_be_unrolled_is_refused(monkeypatch, old, new, said):
    monkeypatch.setattr(unrolled, "MOST_STEPS", 900)
    with pytest.raises(FormatError, match=said):
        steps(LOOP.replace(old, new).replace("TRIPS", TRIPS).replace(old, new))
