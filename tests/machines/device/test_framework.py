"""What a framework adds: factors on computed times by class of work, and nothing on recorded ones."""

import numpy as np
import pytest

import chakrakit as ck
from chakrakit import TraceBuilder
from chakrakit.errors import ConfigError
from chakrakit.machines import load_machine
from chakrakit.machines.device import InFramework, Roofline, framework_named
from chakrakit.machines.device.framework import Framework, frameworks


def rows():
    t = TraceBuilder()
    for op_type, dtype in (
        ("matmul", "bf16"),
        ("matmul", "fp8"),
        ("attention", "bf16"),
        ("vector", "bf16"),
    ):
        t.comp(op_type, num_ops=10**12, tensor_size=10**9, op_type=op_type, dtype=dtype)
    t.comp("timed", duration_ns=1000, op_type="vector")
    return t.build()


def test_each_class_has_its_factor_and_recorded_times_keep_theirs():
    framework = Framework("", products=2, narrow_products=3, attention=4, vector=5)
    device = load_machine("dgx-h100").devices[0]
    plain = Roofline().costs(rows(), device).ps
    longer = InFramework(Roofline(), framework).costs(rows(), device).ps
    assert np.allclose(longer / plain, [2, 3, 4, 5, 1])


def test_a_simulation_says_its_framework_and_takes_longer():
    traces = ck.generate(model="gpt3-125m", dp=2, seq=128, global_batch=2, layers=1).traces
    alone, within = (ck.simulate(traces, "dgx-h100", framework=f) for f in ("", "llm-foundry"))
    assert within.summary.framework == "llm-foundry"
    assert within.makespan_ns > alone.makespan_ns


def test_an_unknown_framework_is_refused_with_the_nearest():
    with pytest.raises(ConfigError, match="megatron"):
        framework_named("megatro")
    assert all(f.about for f in frameworks().values())
