"""Where ranks go by themselves on racks whose size is no power of two."""

import numpy as np

import chakrakit as ck
from chakrakit.machines import load_machine
from chakrakit.simulator.engine.placing import per_rack, whole_groups


def test_racks_of_72_take_64_where_there_are_enough():
    racks = load_machine("gb200-nvl72:2")
    assert per_rack(128, racks) == 64
    assert per_rack(136, racks) == 72
    assert per_rack(72, racks) == 72
    assert whole_groups(np.array([0, 63, 64, 127]), 128, racks).tolist() == [0, 63, 72, 135]


def test_nodes_of_eight_are_filled():
    assert per_rack(64, load_machine("dgx-h100:16")) == 8


def test_the_result_says_how_ranks_were_placed_or_what_straddles():
    """Two racks hold 128 ranks 64 and 64, but 140 only one after another, which cuts a group of 35."""
    plan = {"model": "gpt3-125m", "layers": 1, "seq": 64, "tp": 4}
    notes = [
        ck.simulate(
            ck.generate(**plan, dp=dp, global_batch=dp).traces, "gb200-nvl72:2"
        ).summary.notes
        for dp in (32, 35)
    ]
    assert notes[0][0] == "64 ranks to a node of 72, so that no group straddles two nodes"
    assert "groups of 35 to 35 ranks straddle nodes of 72 devices" in notes[1][0]
