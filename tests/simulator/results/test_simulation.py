"""One call from names to a result, and what its card says was asked for."""

import numpy as np
import pytest

import chakrakit
from chakrakit import CollectiveType, TraceBuilder, TraceSet
from chakrakit.errors import ConfigError, TraceError
from chakrakit.machines import parse_machine
from chakrakit.simulator.engine import SimulationOptions
from chakrakit.simulator.results import simulate
from chakrakit.trace.sets import Times, run_of
from support.simulated import collective, machine_of


def timed(**options):
    t = TraceBuilder()
    t.comp("w", start_ns=5, duration_ns=40)
    return simulate(
        TraceSet([t.build()]), None, options=SimulationOptions(**options), compute="measured"
    )


def test_where_all_times_are_measured_no_machine_is_needed():
    done = timed(communication="measured")
    assert done.makespan_ns == done.facts().makespan_ns == 40


def test_without_a_machine_nothing_is_said_of_one():
    """No peak to compare with, no power, no price, no memory."""
    found = timed(communication="measured").facts()
    assert found.machine == ""
    assert (found.mfu, found.energy_joules, found.price, found.fits) == (None,) * 4
    assert "device_memory_bytes" not in timed(communication="measured").settings


def test_else_a_machine_must_be_named():
    with pytest.raises(ConfigError, match="say what to simulate on: --machine"):
        timed()


def test_the_card_says_what_was_asked_for_and_what_came_of_it():
    asked = SimulationOptions(
        placement=(1, 0), network="analytical", settings={"jitter": 0.1, "placement": "file.json"}
    )
    done = simulate(
        collective(CollectiveType.ALL_REDUCE, 8, 2), machine_of("ring", 2), options=asked
    )
    card = done.run().card.settings
    assert {n: card[n] for n in ("network", "algorithms", "placement", "jitter")} == {
        "network": "analytical",
        "algorithms": "auto",
        "placement": [1, 0],
        "jitter": 0.1,
    }
    plain = simulate(collective(CollectiveType.ALL_REDUCE, 8, 2), machine_of("ring", 2)).settings
    assert not {"placement", "device_memory_bytes"} & set(plain)


def test_the_smallest_memory_is_kept_for_those_who_look_later():
    done = simulate(collective(CollectiveType.ALL_REDUCE, 8, 2), "dgx-h100")
    assert done.settings["device_memory_bytes"] == int(79.18 * 2**30)


@pytest.mark.slow
def test_the_roof_of_the_only_kind_of_device_is_kept_and_an_analysis_stands_under_it():
    settings = simulate(collective(CollectiveType.ALL_REDUCE, 8, 2), "dgx-h100").settings
    assert (settings["device_peak_tflops"], settings["device_memory_gbps"]) == (989.4, 3350.0)
    traces = chakrakit.generate(model="gpt3-125m", dp=2, seq=128, global_batch=2).traces
    done = chakrakit.simulate(traces, "dgx-h100", compute="roofline")
    roofline = chakrakit.analyze(done.run()).roofline
    assert (roofline.peak_tflops, roofline.peak_gbps) == (989.4, 3350.0)
    assert roofline.mfu == pytest.approx(done.facts().mfu, rel=0.01)
    assert all(0 < point.of_roof <= 1.01 for point in roofline.points)


def recorded(second_start_ns: int):
    """Two kernels on one stream as recorded, the second of them perhaps before the first has ended."""
    t = TraceBuilder()
    t.comp("a", start_ns=0, duration_ns=1000, stream=7, is_cpu_op=False)
    t.comp("b", start_ns=second_start_ns, duration_ns=1000, stream=7, is_cpu_op=False)
    times = Times(np.array([0, second_start_ns]), np.array([1000, second_start_ns + 1000]))
    run = run_of(TraceSet([t.build()]), {0: times}, tick_ps=1000)
    options = SimulationOptions(communication="measured")
    return simulate(run, None, options=options, compute="measured").facts()


def test_a_run_whose_own_times_do_not_give_the_recording_back_says_so():
    assert recorded(1000).notes == []
    (note,) = recorded(500).notes
    assert "with its own times the run takes 0.002 ms" in note
    assert recorded(500).makespan_ns == 2000


def test_products_at_another_types_rate_are_said() -> None:
    """A file that states bf16 alone gives fp32 products that rate, and the result says so."""
    device = {"peak": {"bf16": "100 TFLOP/s"}, "memory_bandwidth": "1 TB/s"}
    network = [{"topology": "switch", "size": 1, "bandwidth": "1 GB/s"}]
    machine = parse_machine({"device": {"name": "mine", **device}, "network": network}, "m")
    notes = {}
    for dtype in ("bf16", "fp32"):
        step = chakrakit.generate(model="llama3.1-8b", layers=1, seq=64, dtype=dtype).traces
        notes[dtype] = chakrakit.simulate(step, machine).summary.notes
    assert any("mine states no rate for fp32" in note for note in notes["fp32"])
    assert not any("states no rate" in note for note in notes["bf16"])


def test_edits_hold_for_work_that_has_times_and_are_refused_for_work_that_has_none() -> None:
    step = chakrakit.generate(model="llama3.1-8b", layers=1, seq=4096).traces
    for spelled in ("edit{scale=0.5, classes=[gemm]}", "recost{scale={gemm: 0.5}}"):
        with pytest.raises(TraceError, match="has no times yet"):
            chakrakit.transform(step, [spelled])
    run = chakrakit.simulate(step, "dgx-h100").run()
    faster = chakrakit.transform(run, ["edit{scale=0.5, classes=[gemm]}"]).traces
    assert chakrakit.simulate(faster, "dgx-h100").summary.makespan_ns < 0.9 * run.makespan_ns
    notes = chakrakit.simulate(faster, "dgx-h100", compute="roofline").summary.notes
    assert any("--compute roofline replaces the times that edit{" in note for note in notes)


def test_modelled_launches_are_not_called_measured() -> None:
    step = chakrakit.generate(model="llama3.1-8b", layers=1, seq=64).traces
    launched = chakrakit.transform(step, ["launched"]).traces
    sources = {s.source for s in chakrakit.simulate(launched, "dgx-h100").summary.compute_sources}
    assert "launches" in sources
    assert "measured" not in sources


@pytest.mark.parametrize(("vocab", "said"), [(33333, True), (33336, False)])
def test_products_of_odd_widths_are_said_to_be_timed_as_padded(vocab: int, said: bool) -> None:
    """No kernel loads 16 bytes at a time of rows of 33,333 elements of 16 bits; 33,336 are whole."""
    step = chakrakit.generate(model="llama3.1-8b", layers=1, seq=77, vocab=vocab).traces
    notes = chakrakit.simulate(step, "dgx-h100").summary.notes
    assert any("timed as if it were padded" in note for note in notes) == said
