"""Whether two ranks run the same program, their own groups and peers aside."""

from __future__ import annotations

import pytest

from chakrakit.sources.capture.folding import Families, digest
from chakrakit.sources.capture.folding.families import relative_peer
from chakrakit.sources.capture.recording import CommCall, CreatedGroup
from chakrakit.sources.pytorch import names as words

RING = (CreatedGroup("pp", (0, 1, 2, 3), "pp"),)


def send(peer, size=8):
    return "c10d::send", {"comm": CommCall(words.SEND, "pp", size, size, "float32", peer=peer)}


@pytest.fixture
def digested(recorded):
    def of(*ops, rank=0, **more):
        made = recorded(*ops, rank=rank, groups=RING, **more)
        return digest(made, Families(made.groups, 4))

    return of


def test_ranks_that_send_to_the_next_one_are_alike(digested):
    assert digested(send(1), rank=0) == digested(send(3), rank=2) == digested(send(0), rank=3)
    assert digested(send(1), rank=0) != digested(send(1), rank=2)


@pytest.mark.parametrize(
    "other",
    [
        [("aten::add", {})],
        [("aten::mm", {"phase": 1})],
        [("aten::mm", {"module": 1})],
        [("aten::mm", {"micro_batch": 2})],
        [("aten::mm", {}), ("aten::mm", {})],
    ],
)
def test_another_operator_phase_module_or_micro_batch_is_another_program(digested, other):
    assert digested(("aten::mm", {})) != digested(*other)


def test_sizes_and_parameters_count_and_storages_do_not(digested):
    plain = digested(("aten::mm", {}))
    assert digested(("aten::mm", {"reads": [5], "alloc": 64})) == plain
    assert digested(("aten::mm", {}), parameters=7) != plain
    assert digested(send(1, size=16)) != digested(send(1))


def test_one_step_alone_can_be_compared(recorded):
    ops = ("aten::mm", {"step": 0}), ("aten::add", {"step": 1})
    both, first = recorded(*ops), recorded(ops[0])
    families = Families((), 4)
    assert digest(both, families) != digest(first, families)
    assert digest(both, families, 0) == digest(first, families, 0)


def test_a_peer_counts_from_the_rank_s_own_place_and_a_root_by_its_own():
    members = (0, 1, 2, 3)
    assert relative_peer(CommCall(words.RECV, "pp", 8, 8, "", peer=0), members, 3) == 1
    assert relative_peer(CommCall(words.SEND, "pp", 8, 8, "", peer=2), (), -1) == 2
    assert relative_peer(CommCall(0, "pp", 8, 8, "", peer=2), members, 3) == 2
