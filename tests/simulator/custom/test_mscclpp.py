"""MSCCL++ plans as algorithms: who sends what after what, and how long that takes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from chakrakit import CollectiveType
from chakrakit.errors import ConfigError, FormatError
from chakrakit.simulator.custom import custom_for, moves_from_mscclpp
from support.simulated import collective, machine_of, seconds


def buffer(kind: str, index: int) -> dict[str, Any]:
    return {"type": kind, "index": index, "size": 1}


def remote(index: int) -> dict[str, Any]:
    return {"buffer_id": 0, "index": index, "size": 1}


def plan(blocks: dict[int, list[list[dict[str, Any]]]], remote_kind: str = "i") -> dict[str, Any]:
    """Two GPUs with one channel to each other, two chunks, and one list of operations per block."""
    return {
        "name": "test",
        "collective": "allreduce",
        "protocol": "Simple",
        "gpus": [
            {
                "id": gpu,
                "input_chunks": 2,
                "output_chunks": 2,
                "scratch_chunks": 2,
                "channels": [{"channel_type": "memory", "connected_to": [1 - gpu]}],
                "remote_buffers": [{"rank": 1 - gpu, "type": remote_kind}],
                "semaphores": [{"init_value": 0}],
                "threadblocks": [
                    {
                        "id": i,
                        "ops": ops,
                        "channels": [{"channel_type": "memory", "channel_ids": [0]}],
                        "remote_buffer_refs": [
                            {"access_channel_type": "memory", "remote_buffer_ids": [0]}
                        ],
                    }
                    for i, ops in enumerate(blocks[gpu])
                ],
            }
            for gpu in (0, 1)
        ],
    }


SIGNAL = {"name": "signal", "channel_ids": [0], "channel_type": "memory"}
WAIT = {"name": "wait", "channel_ids": [0], "channel_type": "memory"}


def exchange(gpu: int) -> list[dict[str, Any]]:
    """Reads its chunk from the other, reduces, writes it back: an all-reduce of two."""
    mine = [buffer("i", gpu), remote(gpu)]
    return [SIGNAL, WAIT, {"name": "rres", "src_buff": mine, "dst_buff": mine}, SIGNAL, WAIT]


def written(tmp_path: Path, said: dict[str, Any]) -> Path:
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(said))
    return path


def test_an_all_reduce_of_two_reads_and_writes_half_each(tmp_path: Path) -> None:
    steps = moves_from_mscclpp(written(tmp_path, plan({g: [exchange(g)] for g in (0, 1)})))

    ends = sorted((int(s.src[0]), int(s.dst[0]), s.reduce) for s in steps.steps)
    assert ends == [(0, 1, False), (0, 1, True), (1, 0, False), (1, 0, True)]
    size = 10**9
    took = seconds(
        collective(CollectiveType.ALL_REDUCE, size, 2),
        machine_of("full", 2),
        custom=custom_for("all-reduce", steps),
    )
    assert took == pytest.approx(2 * (1e-6 + size / 2 / 10e9), rel=0.01)


@pytest.mark.parametrize("blocks", [1, 2, 4])
def test_a_group_of_thread_blocks_divides_the_data_among_its_blocks(
    tmp_path: Path, blocks: int
) -> None:
    """Each block of the group does all of the exchange's operations, on its share of the data."""

    def shared(gpu: int, block: int) -> list[dict[str, Any]]:
        share = {"tbg_info": {"tb_id": block, "tbg_size": blocks}}
        return [{**op, **share} for op in exchange(gpu)]

    said = plan({g: [shared(g, b) for b in range(blocks)] for g in (0, 1)})
    for gpu in said["gpus"]:
        gpu["channels"][0]["connected_to"] *= blocks
        for number, block in enumerate(gpu["threadblocks"]):
            block["channels"][0]["channel_ids"] = [number]
    took = seconds(
        collective(CollectiveType.ALL_REDUCE, 10**9, 2),
        machine_of("full", 2),
        custom=custom_for("all-reduce", moves_from_mscclpp(written(tmp_path, said))),
    )
    assert took == pytest.approx(2 * (1e-6 + 10**9 / 2 / 10e9), rel=0.01)


def test_a_packet_waits_for_no_signal_but_for_its_data(tmp_path: Path) -> None:
    """GPU 0 puts a packet into the scratch of 1, which sends it back once it is there."""
    there = {"name": "ppkt", "src_buff": [buffer("i", 0)], "dst_buff": [remote(1)]}
    back = {"name": "rppkt", "src_buff": [buffer("s", 1)], "dst_buff": [remote(0)]}

    steps = moves_from_mscclpp(written(tmp_path, plan({0: [[there]], 1: [[back]]}, "s"))).steps

    assert [(int(s.src[0]), int(s.dst[0]), s.after) for s in steps] == [(0, 1, ()), (1, 0, (0,))]


def test_semaphores_order_threadblocks(tmp_path: Path) -> None:
    put = {"name": "put", "src_buff": [buffer("i", 0)], "dst_buff": [remote(0)]}
    first = [put, {"name": "sem_release", "semaphore_ids": [0]}]
    second = [{"name": "sem_acquire", "semaphore_ids": [0]}, put]

    steps = moves_from_mscclpp(written(tmp_path, plan({0: [second, first], 1: [[]]}))).steps

    assert [s.after for s in steps] == [(), (0,)]


@pytest.mark.parametrize(
    ("ops", "says"),
    [
        ([{"name": "teleport"}], "'teleport' is not known"),
        ([WAIT], "waits 1 times"),
        ([{"name": "put", "dst_buff": [{"buffer_id": 7}]}], "remote buffer 7 of 1"),
        ([{"name": "put", "dst_buff": [remote(-1)]}], "a part at -1 of 1 chunks"),
        (
            [{"name": "put", "dst_buff": [remote(0)], "tbg_info": {"tb_id": 2, "tbg_size": 2}}],
            "thread block 2 of 2",
        ),
        ([{"name": "signal", "channel_ids": [3], "channel_type": "memory"}], "channel 3 of 1"),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path: Path, ops: list[Any], says: str) -> None:
    with pytest.raises(FormatError, match=says):
        moves_from_mscclpp(written(tmp_path, plan({0: [ops], 1: [[]]})))


def test_a_gpu_that_is_not_in_the_plan_is_refused(tmp_path: Path) -> None:
    said = plan({0: [[{"name": "put", "dst_buff": [remote(0)]}]], 1: [[]]})
    said["gpus"][0]["remote_buffers"][0]["rank"] = 65_536

    with pytest.raises(FormatError, match="put names gpu 65536 of 2"):
        moves_from_mscclpp(written(tmp_path, said))


def test_a_circle_of_waits_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="circle"):
        moves_from_mscclpp(written(tmp_path, plan({g: [[WAIT, SIGNAL]] for g in (0, 1)})))


def test_other_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"not an MSCCL\+\+ plan"):
        moves_from_mscclpp(written(tmp_path, {"gpus": 3}))
