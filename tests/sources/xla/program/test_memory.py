"""Memory of a scheduled module: results live from where they are made to where they are last read."""

from __future__ import annotations

import pytest

from chakrakit.sources.xla import parse_hlo
from chakrakit.sources.xla.rows import Unrolled, memory_of

TEXT = b"""\
HloModule m, is_scheduled=true

ENTRY %main (a: f32[10]) -> f32[10] {
  %a = f32[10] parameter(0)
  %b = f32[10] negate(%a)
  %c = f32[20] concatenate(%b, %b), dimensions={0}
  ROOT %d = f32[10] slice(%c), slice={[0:10]}
}
"""


@pytest.fixture
def module():
    return parse_hlo(TEXT)


def test_arguments_are_held_and_results_freed_after_their_last_reader(module):
    """Bytes: a 40 throughout, b 40 until c, c 80 until d, which is the result."""
    alloc, free, peak = memory_of(module, Unrolled(module).steps)
    assert alloc == [40 + 40, 80, 40]
    assert free == [0, 40, 80]
    assert peak == 40 + 40 + 80


def test_what_xla_assigned_counts_where_the_file_says_so(module):
    module.allocated = 999
    assert memory_of(module, Unrolled(module).steps)[2] == 999


def test_a_module_that_does_nothing_holds_its_arguments(module):
    assert memory_of(module, []) == ([], [], 40)
