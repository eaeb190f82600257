"""What is known of one linked rank while the ranks are put together."""

from __future__ import annotations

from chakrakit.sources.pytorch.calls import RecordedCollective
from chakrakit.sources.pytorch.linking.step_facts import list_of


def test_collectives_are_changed_in_place(linked_rank):
    linked = linked_rank([RecordedCollective(0, 0, 0, "x")])
    list_of(linked)[0] = RecordedCollective(0, 0, 0, "y")
    assert [c.raw for c in linked.recorded.collectives] == ["y"]
