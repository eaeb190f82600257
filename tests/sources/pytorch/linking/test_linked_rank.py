"""What is known of one linked rank while the ranks are put together."""

from __future__ import annotations

from chakrakit.sources.pytorch.communication.calls import Collective
from chakrakit.sources.pytorch.linking.linked_rank import collector_card, list_of


def test_the_collector_s_card_lies_beside_the_rank_s_files(linked_rank, tmp_path):
    assert collector_card(linked_rank(), 3) == tmp_path / "card_3.json"


def test_collectives_are_changed_in_place(linked_rank):
    linked = linked_rank([Collective(0, 0, 0, "x")])
    list_of(linked)[0] = Collective(0, 0, 0, "y")
    assert [c.raw for c in linked.recorded.collectives] == ["y"]
