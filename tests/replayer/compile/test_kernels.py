"""Kernels that a compiler generated: launched from their recorded code only where that was allowed."""

from __future__ import annotations

import json

import pytest

from chakrakit.errors import TraceError
from chakrakit.replayer import ReplayOptions
from chakrakit.replayer.plan import GeneratedCode, Kernel, StandIn
from chakrakit.replayer.session import prepare
from chakrakit.sources.pytorch.linking import link
from chakrakit.trace.model import GENERATED_CODE
from support.recorded import ADD
from support.recording import Recording

CODE = {
    "name": "triton_poi_fused_add_0",
    "ptx": ".visible .entry triton_poi_fused_add_0()",
    "arguments": [["in_ptr0", "*fp32"], ["out_ptr0", "*fp32"], ["xnumel", "i32"]],
    "threads": 128,
    "shared": 0,
}
ALLOWED = ReplayOptions(device="cuda", allow_generated_code=True)


@pytest.fixture
def recorded(tmp_path):
    """Links one addition and one generated kernel, whose code the collector wrote down as `code`."""

    recording = Recording()

    def linked(**code):
        recording.op("aten::add", 0, 10, reads=(1, 2), writes=(3,), values=[1], op_schema=ADD)
        recording.launch(2, start=5, dur=3, corr=1)
        recording.op(
            CODE["name"], 20, 10, reads=(3, 4), values=[16, 0],
            kernel_backend="triton", kernel_file="cabc.py",
        )  # fmt: skip
        recording.call("cuLaunchKernel", 22, 2, corr=2)
        recording.kernel(CODE["name"], 25, 4, corr=2, grid=[8, 2, 1])
        et, kineto = recording.write(tmp_path)
        et, kineto = et.rename(tmp_path / "et_0.json"), kineto.rename(tmp_path / "kineto_0.json")
        card = {"rank": 0, "generated": {"cabc": CODE | code, "cother": CODE}}
        (tmp_path / "card_0.json").write_text(json.dumps(card))
        return link([et, kineto])[0]

    return linked


def test_the_code_of_kernels_that_ran_is_in_the_header_and_their_grid_on_their_rows(recorded):
    trace = recorded().trace(0)
    assert list(json.loads(trace.metadata.attributes[GENERATED_CODE])) == ["cabc"]
    assert [n["grid"] for n in trace.nodes.to_pylist() if n["grid"]] == ["[8, 2, 1]"]


def test_a_generated_kernel_is_a_stand_in_unless_it_was_allowed(recorded):
    traces = recorded()
    plan = prepare(traces, ReplayOptions(device="cuda")).plans[0]
    assert [type(s) for s in plan.steps if not hasattr(s, "overload")] == [StandIn]
    assert (plan.count, plan.codes) == ([1, 2], {})


def test_an_allowed_kernel_is_launched_with_the_tensors_and_numbers_it_had(recorded):
    plan = prepare(recorded(), ALLOWED).plans[0]
    (kernel,) = (s for s in plan.steps if isinstance(s, Kernel))
    (made,) = plan.steps[0].outs
    before = plan.externals[-1].views[0][0]
    assert kernel.args == [{"slot": made}, {"slot": before}, 16]
    assert (kernel.grid, kernel.ns, plan.count) == ([8, 2, 1], 4_000, [2, 2])
    assert plan.codes["cabc"] == GeneratedCode(
        **CODE | {"arguments": [tuple(a) for a in CODE["arguments"]]}
    )


@pytest.mark.parametrize(
    "code",
    [
        {"plain": False},
        {"arguments": [["a", "*fp32"]] * 3},
        {"arguments": [["a", "tensordesc"], ["b", "*fp32"]]},
        {"arguments": [["a", "*fp32"]] * 9},
    ],
    ids=["scratch memory", "a number for a pointer", "an unknown type", "more than it was given"],
)
def test_a_kernel_that_cannot_be_launched_as_it_was_is_a_stand_in(recorded, code):
    plan = prepare(recorded(**code), ALLOWED).plans[0]
    assert plan.count == [1, 2]


def test_what_the_compiler_made_a_constant_is_not_passed(recorded):
    plan = prepare(
        recorded(arguments=[*CODE["arguments"][:2], ["xnumel", "constexpr"]]), ALLOWED
    ).plans[0]
    (kernel,) = (s for s in plan.steps if isinstance(s, Kernel))
    assert len(kernel.args) == 2


def test_code_that_is_none_is_an_error(recorded):
    with pytest.raises(TraceError, match="generated_code of its header"):
        prepare(recorded(threads="many"), ALLOWED)
