"""The step of a recorded run that is simulated with its own times is the step that the run has."""

from __future__ import annotations

import pytest

import chakrakit as ck
from support.recorded import linked


@pytest.mark.parametrize("name", ["cnn_ddp_2", "gpt_pp_2", "mlp_ddp_nccl_1"])
def test_a_step_that_the_host_computes_ends_with_what_computes_and_not_with_what_communicates(
    name: str,
) -> None:
    run = linked(name)
    again = ck.simulate(run, compute="measured", communication="measured")
    told = ck.analyze(run, advice=False).steps
    assert again.summary.step_ns == pytest.approx(told.median_ns, rel=1e-3)
