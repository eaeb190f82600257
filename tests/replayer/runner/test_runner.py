"""The runner on plans of one rank, in this process."""

from __future__ import annotations

import pytest

from support.recorded import ADD, EMBEDDING, MM, Sheet, plain, tensor
from support.replayed import ONE, plan_text

torch = pytest.importorskip("torch")
from chakrakit.replayer.runner.guard import room_for  # noqa: E402
from chakrakit.replayer.runner.limits import ReplayError  # noqa: E402
from chakrakit.replayer.runner.measure import run_plan  # noqa: E402
from chakrakit.replayer.runner.program import Program  # noqa: E402
from chakrakit.replayer.runner.storages import make_externals  # noqa: E402

SETTINGS = {"iterations": 2, "warmup": 1, "timeout_s": 60.0}
pytestmark = pytest.mark.filterwarnings("ignore")


def checked(plan):
    with torch.inference_mode():
        program = Program(torch, plan, "cpu", [], room_for(torch, "cpu", 1))
        make_externals(torch, plan, program.slots, "cpu", program.guard)
        program.check()
    return program


def small_model():
    sheet = Sheet()
    indices = [tensor(1, 50, 8), tensor(2, 6, dtype="long int"), plain(-1, "Int")]
    sheet.op(
        "aten::embedding", EMBEDDING, [*indices, *[plain(False, "Bool")] * 2], [tensor(3, 6, 8)]
    )
    sheet.op("aten::mm", MM, [tensor(3, 6, 8), tensor(4, 8, 5)], [tensor(5, 6, 5)])
    sheet.op("aten::add", ADD, [tensor(5, 6, 5), tensor(6, 5), ONE], [tensor(7, 6, 5)])
    return sheet


def test_a_step_is_replayed_and_recorded(tmp_path):
    found = run_plan(plan_text(small_model(), tmp_path), SETTINGS, tmp_path)
    assert len(found["steps_ns"]) == 2
    assert found["not_covered"] == []
    assert (tmp_path / "kineto_0.json.gz").is_file()


def test_nothing_of_a_step_is_left_but_what_was_there_before(tmp_path):
    plan = plan_text(small_model(), tmp_path)
    program = checked(plan)
    program.run()
    kept = {v[0] for e in plan["externals"] for v in e["views"]}
    assert {i for i, t in enumerate(program.slots) if t is not None} == kept


def test_indices_are_within_range_and_not_all_the_same(tmp_path):
    plan = plan_text(small_model(), tmp_path)
    program = checked(plan)
    (slot,) = (e["views"][0][0] for e in plan["externals"] if e["dtype"] == "int64")
    values = program.slots[slot]
    assert 0 <= int(values.min()) < int(values.max()) < 50


def test_in_place_results_lie_in_the_same_storage(tmp_path):
    sheet = Sheet()
    schema = "aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)"
    sheet.op("aten::add_", schema, [tensor(1, 4), tensor(2, 4), ONE], [tensor(1, 4)])
    program = checked(plan_text(sheet, tmp_path))
    before = program.slots[0].clone()
    with torch.inference_mode():
        program.run()
    assert torch.allclose(program.slots[0], before + program.slots[1])


@pytest.mark.parametrize(
    ("right", "out", "why"),
    [
        (tensor(2, 3), tensor(3, 4), "must match"),  # PyTorch refuses
        (tensor(2, 4), tensor(3, 2, 2), "gives shape [4] and not [2, 2]"),
    ],
)
def test_what_cannot_be_done_as_recorded_is_replaced_and_counted(tmp_path, right, out, why):
    sheet = Sheet()
    sheet.op("aten::add", ADD, [tensor(1, 4), right, ONE], [out])
    sheet.op("aten::add", ADD, [out, out, ONE], [tensor(4, *out["shape"])])
    program = checked(plan_text(sheet, tmp_path))
    (replaced,) = program.not_covered
    assert replaced["name"] == "aten::add"
    assert why in replaced["why"]
    program.run()


def test_an_operator_this_pytorch_does_not_have_is_replaced(tmp_path):
    sheet = Sheet()
    sheet.op(
        "aten::add",
        ADD.replace("add.Tensor", "add.Unheard"),
        [tensor(1, 4), tensor(1, 4), ONE],
        [tensor(2, 4)],
    )
    program = checked(plan_text(sheet, tmp_path))
    assert "has no aten::add.Unheard" in program.not_covered[0]["why"]


def test_the_short_way_is_taken_only_to_the_same_operator(tmp_path):
    """`Tensor.div` with a number is `div.Tensor` to the dispatcher, and here `div.Scalar` was recorded."""
    sheet = Sheet()
    schema = "aten::div.Scalar(Tensor self, Scalar other) -> Tensor"
    sheet.op("aten::div", schema, [tensor(1, 4), plain(2, "Int")], [tensor(2, 4)])
    sheet.op("aten::add", ADD, [tensor(1, 4), tensor(1, 4), ONE], [tensor(3, 4)])
    program = checked(plan_text(sheet, tmp_path))
    with torch.inference_mode():
        from torch.utils._python_dispatch import TorchDispatchMode

        seen = []

        class Watch(TorchDispatchMode):
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                seen.append(str(func))
                return func(*args, **(kwargs or {}))

        with Watch():
            program.run()
    assert seen == ["aten.div.Scalar", "aten.add.Tensor"]


def test_more_than_there_is_of_memory_is_refused_before_it_is_taken(tmp_path):
    plan = plan_text(small_model(), tmp_path)
    plan["memory"]["cpu"] = 1 << 47
    with pytest.raises(ReplayError, match=r"needs 131,072\.0 GiB on this machine"):
        run_plan(plan, SETTINGS, None)


def test_gaps_of_the_host_are_kept_if_asked(tmp_path):
    plan = plan_text(small_model(), tmp_path)
    assert not any(s.get("gap_ns") for s in plan["steps"])
    plan["steps"][1]["gap_ns"] = 20_000_000
    found = run_plan(plan, {**SETTINGS, "iterations": 1}, None)
    assert found["steps_ns"][0] >= 20_000_000


def test_the_backward_thread_is_another_thread(tmp_path):
    import threading

    from chakrakit.replayer.runner.threads import Threads

    ran = []
    steps = [lambda: ran.append(threading.get_ident())] * 4
    threads = Threads(torch, steps, [0, 1, 1, 0])
    threads.run()
    threads.close()
    assert ran[0] == ran[3] == threading.get_ident()
    assert ran[1] == ran[2] != ran[0]


def test_threads_run_at_the_same_time_where_neither_needs_the_other():
    """Both wait for the other in the middle: only threads that run at once get past that."""
    import threading

    from chakrakit.replayer.runner.threads import Threads

    both = threading.Barrier(2)
    ran = []

    def meet(who):
        both.wait(timeout=30)
        ran.append(who)

    steps = [lambda: None, lambda: meet(1), lambda: meet(0), lambda: ran.append("end")]
    threads = Threads(torch, steps, [0, 1, 0, 0], [[], [0], [], [1]])
    for _ in range(3):
        ran.clear()
        threads.run()
        assert sorted(ran[:2]) == [0, 1]
        assert ran[2] == "end"
    threads.close()


def test_a_thread_that_fails_ends_those_that_wait_for_it():
    from chakrakit.replayer.runner.threads import Threads

    def fail():
        raise ValueError("no")

    steps = [lambda: None, fail, lambda: None]
    threads = Threads(torch, steps, [0, 1, 0], [[], [0], [1]])
    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            threads.run()
    threads.close()
