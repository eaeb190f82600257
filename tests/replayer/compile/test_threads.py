"""Host threads of a step: what a step of one must wait for on another."""

from __future__ import annotations

from chakrakit import TraceBuilder
from chakrakit.replayer.compile.memory import PlanMemory, contiguous
from chakrakit.replayer.compile.threads import add_needs
from chakrakit.replayer.plan import AnyStep, Call, Collective, Wait
from chakrakit.replayer.recording import RecordedRows
from chakrakit.replayer.tensors import StorageView

MAIN, AUTOGRAD = 0, 1


def slot_of(memory: PlanMemory, storage: int, step: int) -> int:
    return memory.read(StorageView(storage, "cpu", "float32", (4,), contiguous((4,)), 0), step)[0]


def calls(slot: int, thread: int) -> Call:
    return Call(op="aten::relu_", overload="", args=[{"slot": slot}], thread=thread)


def needs(
    steps: list[AnyStep], written: list[set[int]], memory: PlanMemory, times: list[tuple[int, int]]
) -> list[list[int]]:
    """What each step waits for, given when its row began and ended."""
    t = TraceBuilder()
    for start, end in times:
        t.comp("op", is_cpu_op=True, tid=1, start_ns=start, duration_ns=end - start)
    add_needs(steps, list(range(len(steps))), written, RecordedRows(0, t.build()), memory)
    return [step.needs for step in steps]


SIDE_BY_SIDE = [(1_000, 90_000)] * 4
"""Rows that all ran at once: nobody paused."""


def test_a_read_waits_for_the_last_change_on_another_thread() -> None:
    memory = PlanMemory()
    slot = slot_of(memory, 1, 0)
    changed = {id(memory.version_of[slot])}
    steps = [calls(slot, MAIN), calls(slot, AUTOGRAD), calls(slot, AUTOGRAD)]
    found = needs(steps, [changed, set(), changed], memory, SIDE_BY_SIDE[:3])
    assert found == [[], [0], [0]]


def test_a_change_waits_for_all_who_looked_since() -> None:
    memory = PlanMemory()
    slot = slot_of(memory, 1, 0)
    changed = {id(memory.version_of[slot])}
    steps = [calls(slot, 1), calls(slot, 2), calls(slot, 0)]
    assert needs(steps, [set(), set(), changed], memory, SIDE_BY_SIDE[:3])[2] == [0, 1]


def test_other_storages_hold_nobody_back() -> None:
    memory = PlanMemory()
    slots = [slot_of(memory, s, 0) for s in (1, 2)]
    written = [{id(memory.version_of[s])} for s in slots]
    steps = [calls(slots[0], MAIN), calls(slots[1], AUTOGRAD)]
    assert needs(steps, written, memory, SIDE_BY_SIDE[:2]) == [[], []]


def test_collectives_of_a_group_keep_their_order_and_a_wait_comes_after_its_own() -> None:
    memory = PlanMemory()
    slots = [slot_of(memory, s, 0) for s in (1, 2)]
    first, second = (
        Collective(op="all_reduce", group=0, work=w, inputs=[s], outputs=[s], thread=w)
        for w, s in enumerate(slots)
    )
    steps = [first, second, Wait(work=0, thread=1)]
    assert needs(steps, [set(), set(), set()], memory, SIDE_BY_SIDE[:3]) == [[], [0], [0]]


def test_a_thread_that_paused_goes_on_after_what_others_finished_meanwhile() -> None:
    """Autograd's thread begins when the main thread has ended its forward pass."""
    memory = PlanMemory()
    slots = [slot_of(memory, s, 0) for s in (1, 2)]
    steps = [calls(slots[0], MAIN), calls(slots[1], AUTOGRAD)]
    assert needs(steps, [set(), set()], memory, [(1_000, 2_000), (3_000, 4_000)]) == [[], [0]]


def test_one_thread_needs_nothing() -> None:
    memory = PlanMemory()
    slot = slot_of(memory, 1, 0)
    changed = {id(memory.version_of[slot])}
    steps = [calls(slot, MAIN), calls(slot, MAIN)]
    assert needs(steps, [changed, changed], memory, SIDE_BY_SIDE[:2]) == [[], []]
