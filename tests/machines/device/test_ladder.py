"""The ladder of costs: which rung a device stands on, what carrying does, and what can be compared."""

import msgspec
import pytest

import chakrakit as ck
from chakrakit.errors import ConfigError
from chakrakit.machines import load_machine, parse_machine
from chakrakit.machines.device import (
    Correction,
    MeasuredRow,
    Profile,
    Profiled,
    common_compute,
    packaged_profile,
    rung_of,
    rungs_differ,
    work_model,
)
from chakrakit.machines.device.generated import GeneratedRow, generated_operation
from chakrakit.machines.device.profile import read_profile
from chakrakit.machines.load import preset_names
from chakrakit.operators import gemm_operation


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_stands_on_a_profile(name):
    (device,) = load_machine(name).devices
    rung = "measured profile h200" if device.name.startswith("h200") else "carried profile h200"
    assert rung_of(work_model("auto"), device) == rung


def test_a_file_without_a_profile_is_a_data_sheet():
    level = {"topology": "ring", "size": 2, "bandwidth": 1e9}
    (device,) = parse_machine({"device": {"peak": {"bf16": 1e12}}, "network": [level]}, "m").devices
    assert (
        rung_of(work_model("auto"), device)
        == rung_of(work_model("roofline"), device)
        == "data sheet"
    )
    assert rung_of(work_model("measured"), device) == "recorded"


def test_measured_and_carried_times_compare_but_not_with_a_data_sheet():
    assert not rungs_differ(["measured profile h200", "carried profile h200", ""])
    assert rungs_differ(["measured profile h200", "data sheet"])
    assert rungs_differ(["recorded", "carried profile h200"])
    own = msgspec.structs.replace(load_machine("dgx-h100").devices[0], profile="")
    others = [load_machine(n).devices[0] for n in ("dgx-h200", "mi300x")]
    assert common_compute("auto", others) == "auto"
    assert common_compute("auto", [*others, own]) == "data-sheet"
    assert common_compute("h200", [*others, own]) == "h200"


def test_a_correction_is_linear_between_its_knots_and_constant_beyond():
    grid = Correction(knots=[[0.0, 10.0]], values=[0.0, 1.0])
    factors = [grid.factor((2**octaves,)) for octaves in (0, 5, 10, 20)]
    assert factors == pytest.approx([1.0, 2.718281828**0.5, 2.718281828, 2.718281828])


def test_a_carried_profile_scales_by_peaks_and_then_corrects(monkeypatch):
    """A product of 1 ms at 80 % of the rate takes half on a device of twice the rate, corrected by e^0.1."""
    big = gemm_operation(8192, 8192, 8192)
    base = Profile(
        name="base",
        peak={"bf16": big.flops / 0.8e-3},
        memory_bandwidth=1e15,
        classes={"gemm": [MeasuredRow(list(big.shape), 1000.0, big.flops, big.bytes)]},
    )
    monkeypatch.setattr(
        "chakrakit.machines.device.profile.packaged_profile", lambda _: Profiled(base)
    )
    grid = Correction(knots=[[0.0, 20.0]] * 3, values=[0.1] * 8)
    twice = Profile(
        peak={"bf16": 2 * big.flops / 0.8e-3},
        memory_bandwidth=2e15,
        base="base",
        corrections={"gemm": grid},
    )
    found = Profiled(twice).predict(big)
    assert found.us == pytest.approx(500.0 * 2.718281828**0.1)


def test_products_in_fp8_take_half_of_those_in_bf16_where_nothing_was_timed():
    """On a device with tables of 16 bits alone, the rate of the type decides."""
    h100, device = packaged_profile("h100"), load_machine("dgx-b200").devices[0]
    wide, narrow = (
        generated_operation(
            GeneratedRow(
                "mlp", "matmul", dtype, "forward", "[[8192,8192],[8192,8192]]", 1.1e12, 4e8
            )
        )
        for dtype in ("bf16", "fp8")
    )
    times = [h100.carried(h100.predict(o), o, device).us for o in (wide, narrow)]
    assert 0.4 < times[1] / times[0] < 0.75


HEADS = "[2,8,64,32]"


@pytest.mark.parametrize(
    ("row", "shape", "table"),
    [
        (("mlp.up", "matmul", "bf16", "forward", "[[64,32],[32,128]]"), (64, 128, 32), "gemm.nt"),
        (
            ("mlp.up.dw", "matmul", "fp8", "backward", "[[32,64],[64,128]]"),
            (32, 128, 64),
            "gemm.8.tn",
        ),
        (
            ("moe.up", "matmul", "bf16", "forward", "[[4,64,32],[4,32,128]]"),
            (256, 128, 32, 4),
            "grouped",
        ),
        (
            ("core", "attention", "bf16", "forward", "[[2,8,64,16],[2,2,64,16],[2,2,64,16]]"),
            (16, 64, 64, 16),
            "attention.cudnn.causal.grouped",
        ),
        (
            ("core.scores.again", "attention", "fp16", "backward", f"[{','.join(3 * [HEADS])}]"),
            (16, 64, 64, 32),
            "bmm.nt",
        ),
        (
            ("core.values.dx", "attention", "fp16", "backward", f"[{','.join(3 * [HEADS])}]"),
            (32, 64, 32, 64),
            "bmm.nn",
        ),
    ],
)
def test_generated_rows_are_looked_up_like_recorded_ones(row, shape, table):
    found = generated_operation(GeneratedRow(*row, flops=2.0 * 16 * 64 * 64 * 16, moved=100.0))
    assert (found.shape, found.table) == (shape, table)


def test_a_profile_is_measured_or_carried(tmp_path):
    file = tmp_path / "p.json"
    for text, said in (
        ("{}", "either `classes` or the `base`"),
        ('{"base": "h200"}', "`peak` .with bf16"),
        ('{"base": "h", "peak": {"bf16": 1}, "memory_bandwidth": 1}', "not a packaged profile"),
        (
            '{"base": "h200", "peak": {"bf16": 1}, "memory_bandwidth": 1, "corrections": {"gemm": '
            '{"knots": [[0, 1]], "values": [0]}}}',
            "one number for each place",
        ),
    ):
        file.write_text(text)
        with pytest.raises(ConfigError, match=said):
            read_profile(file)


def test_the_rung_is_in_the_result_and_keeps_two_runs_from_being_ranked():
    traces = ck.generate(model="gpt3-125m", dp=2, seq=128, global_batch=2, layers=1).traces
    profile = ck.simulate(traces, "dgx-h100")
    sheet = ck.simulate(traces, "dgx-a100", compute="data-sheet")
    assert (profile.summary.rung, sheet.summary.rung) == ("carried profile h200", "data sheet")
    comparison = ck.compare(profile.run(), sheet.run())
    assert comparison.incomparable
    assert "costed by carried profile h200 in A and by data sheet in B" in comparison.warning
    with pytest.raises(ConfigError, match="--fail-if"):
        ck.compare(profile.run(), sheet.run(), fail_if=["step>3%"])


def test_a_user_s_own_profile_and_work_model_have_a_rung(tmp_path):
    traces = ck.generate(model="gpt3-125m", layers=1, dp=2, seq=16, global_batch=2).traces
    row = {"shape": [64, 64, 64], "us": 4.0, "flops": 5e5, "bytes": 2e4}
    profile = {"name": "mine", "device": "H100", "fitted_on": ["x"], "classes": {"gemm": [row]}}
    (tmp_path / "mine.json").write_bytes(msgspec.json.encode(profile))
    simulated = ck.simulate(traces, "dgx-h100", compute=str(tmp_path / "mine.json"))
    assert simulated.summary.rung.endswith("profile mine")

    class Own:
        name = "my own"

    assert rung_of(Own(), load_machine("dgx-h100").devices[0]) == "my own"


def test_flops_of_rows_that_another_generator_typed_or_nobody_did_count():
    """A product of 268 GFLOP takes as long whatever it is called; by its bytes it would take 18 µs."""
    spans = []
    for typed in ({"op_type": "matmul"}, {"op_type": "M"}, {}):
        t = ck.TraceBuilder()
        t.comp("out_emb.dw", num_ops=268_435_456_000, tensor_size=32_768_000, **typed)
        spans.append(ck.simulate(ck.TraceSet([t.build()]), "dgx-h100").makespan_ns)
    assert spans == [spans[0]] * 3
    assert spans[0] > 268_435_456_000 / 989e3
