"""Generated kernels as the runner launches them, with a driver that only notes what it is told."""

from __future__ import annotations

import ctypes
import json

import pytest

from chakrakit.replayer.runner import kernels
from chakrakit.replayer.runner.kernels import GeneratedKernel, KernelError, parameter_types
from chakrakit.replayer.runner.limits import ReplayError, check_plan

PTX = """
.visible .entry triton_poi_0(
	.param .u64 .ptr .global .align 1 triton_poi_0_param_0,
	.param .u32 triton_poi_0_param_1,
	.param .f32 triton_poi_0_param_2,
	.param .u64 .ptr .global .align 1 triton_poi_0_param_3
)
.reqntid 128
"""


class Driver:
    """Notes launches: grid, threads, shared memory, and what lies where the parameters point to."""

    def __init__(self, result: int = 0) -> None:
        self.result, self.launched, self.attributes = result, [], []

    def cuModuleLoadData(self, module, code):  # noqa: N802 - the driver's name
        return self.result

    def cuModuleGetFunction(self, function, module, name):  # noqa: N802
        return 0

    def cuFuncSetAttribute(self, function, attribute, value):  # noqa: N802
        self.attributes.append((attribute, value))
        return 0

    def cuGetErrorString(self, number, text):  # noqa: N802
        return 0

    def cuLaunchKernel(self, function, x, y, z, tx, ty, tz, shared, stream, pointers, extra):  # noqa: N802
        kinds = (ctypes.c_uint64, ctypes.c_uint32, ctypes.c_float, ctypes.c_uint64)
        values = [kind.from_address(p).value for kind, p in zip(kinds, pointers, strict=True)]
        self.launched.append(((x, y, z), (tx, ty, tz), shared, stream.value, values))
        return 0


@pytest.fixture
def driver(monkeypatch):
    found = Driver()
    monkeypatch.setattr(kernels, "driver", lambda: found)
    return found


def test_a_kernel_is_launched_with_what_its_code_declares_and_no_scratch_memory(driver):
    kernel = GeneratedKernel(PTX, "triton_poi_0", threads=128, shared=64)
    kernel.launch([8, 2, 1], 7, [1 << 40, 16, 0.5])
    assert driver.launched == [((8, 2, 1), (128, 1, 1), 64, 7, [1 << 40, 16, 0.5, 0])]
    assert driver.attributes == []


def test_more_shared_memory_than_usual_is_asked_for(driver):
    GeneratedKernel(PTX, "triton_poi_0", threads=128, shared=60_000)
    assert driver.attributes == [(8, 60_000)]


@pytest.mark.parametrize(
    ("ptx", "name", "said"),
    [
        (PTX, "other", "has no entry 'other'"),
        (".entry k(.param .align 64 .b8 descriptor[128])", "k", ""),
        (".entry k(.param .texref t)", "k", "unknown type"),
    ],
)
def test_code_that_cannot_be_launched_says_why(ptx, name, said):
    if not said:
        assert parameter_types(ptx, name) == [ctypes.c_uint8]
        return
    with pytest.raises(KernelError, match=said):
        parameter_types(ptx, name)


def test_too_many_arguments_and_a_driver_that_refuses_are_errors(driver):
    kernel = GeneratedKernel(PTX, "triton_poi_0", threads=128, shared=0)
    with pytest.raises(KernelError, match="takes 4 parameters, got 5"):
        kernel.launch([1, 1, 1], 0, [1, 2, 3, 4, 5])
    driver.result = 218
    with pytest.raises(KernelError, match=r"cuModuleLoadData: .* \(218\)"):
        GeneratedKernel(PTX, "triton_poi_0", threads=128, shared=0)


def with_kernel(plan, **changes):
    """A plan with one kernel more; `changes` are of its step, or of its code."""
    code = {"name": "triton_poi_0", "ptx": PTX, "threads": 128, "shared": 0}
    step = {
        "do": "kernel",
        "op": "k",
        "code": "c",
        "args": [{"slot": 0}, 16],
        "grid": [8, 1, 1],
        "ns": 1000,
    }
    code |= {k: v for k, v in changes.items() if k in code}
    step |= {k: v for k, v in changes.items() if k in step}
    return json.loads(json.dumps({**plan, "steps": [*plan["steps"], step], "codes": {"c": code}}))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"code": "d"}, "no code 'd'"),
        ({"grid": [0, 1, 1]}, "a launch of"),
        ({"grid": [1, 1]}, "a launch of"),
        ({"grid": [1 << 40, 1, 1]}, "a launch of"),
        ({"threads": 4096}, "a launch of"),
        ({"shared": -1}, "-1 bytes of shared memory"),
        ({"args": ["text"]}, "neither a tensor nor a number"),
        ({"args": [{"slot": 99}]}, "no slot 99"),
    ],
)
def test_a_plan_with_a_kernel_that_cannot_be_is_refused(plan, changes, said):
    with pytest.raises(ReplayError, match=said):
        check_plan(with_kernel(plan, **changes))


def test_a_plan_that_brings_code_runs_none_of_it_unless_the_runner_was_told_to(plan, driver):
    """Whoever made the plan allowed it for themselves; whoever runs it says so again."""
    torch = pytest.importorskip("torch")
    from chakrakit.replayer.runner.guard import memory_budget
    from chakrakit.replayer.runner.program import PlanProgram
    from chakrakit.replayer.runner.storages import make_externals

    brought = with_kernel(plan)
    check_plan(brought)
    with torch.inference_mode():
        program = PlanProgram(torch, brought, "cpu", [], memory_budget(torch, "cpu", 1))
        make_externals(torch, brought, program.slots, "cpu", program.guard)
        program.check()
        program.run()
    assert [(n["name"], n["time_ns"]) for n in program.not_covered] == [("k", 1000)]
    assert "--allow-generated-code" in program.not_covered[0]["why"]
    assert driver.launched == []
