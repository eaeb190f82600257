"""What to say first about a run, in units that suit it."""

from pathlib import Path

import numpy as np
import pytest

import chakrakit as ck
from chakrakit.insight import answers, interval_text, ranks_text
from chakrakit.results import energy_text, size_text, time_text
from chakrakit.trace.sets import Card, RecordedStep, Times, run_of


@pytest.mark.parametrize(
    ("nanos", "text"),
    [(0, "0 ns"), (999, "999 ns"), (1500, "1.50 µs"), (2.5e6, "2.50 ms"), (3.2e12, "3,200.00 s")],
)
def test_times_have_the_unit_that_suits_them(nanos, text):
    assert time_text(nanos) == text


@pytest.mark.parametrize(
    ("count", "text"), [(1023, "1,023 B"), (1536, "1.50 KiB"), (80 * 2**30, "80.00 GiB")]
)
def test_sizes_do_too(count, text):
    assert size_text(count) == text


@pytest.mark.parametrize(
    ("ranks", "text"),
    [
        ([5], "rank 5"),
        (list(range(64)), "ranks 0–63 (64)"),
        ([0, 8, 9, 24], "ranks 0, 8–9, 24 (4)"),
    ],
)
def test_ranks_are_told_in_stretches(ranks, text):
    assert ranks_text(ranks) == text


@pytest.fixture(scope="module")
def simulated():
    """One product on an H200, by the roofline: nobody measured it."""
    t = ck.TraceBuilder()
    t.comp("layers.0.qkv", num_ops=2 * 4096**3, tensor_size=3 * 4096**2 * 2, op_type="matmul")
    return ck.simulate(ck.TraceSet([t.build()], {0: ck.Binding(0)}), "dgx-h200", compute="roofline")


@pytest.mark.slow
def test_a_simulation_says_what_it_takes_and_how_sure_it_is(simulated):
    by_question = {a.question: a for a in answers(simulated.run().analyze())}
    joules = simulated.summary.energy_joules
    assert by_question["What does it take?"].figure == energy_text(joules)
    sure = by_question["How sure are the times?"]
    low, high = simulated.summary.interval_ns
    assert sure.figure == interval_text(simulated.summary.makespan_ns, low, high)
    assert "100.0 % of the devices' time lies outside of what was measured" in sure.sentence


def test_what_is_known_of_a_simulation_reaches_the_analysis_as_json(simulated):
    footprint = simulated.run().analyze().to_dict()["footprint"]
    summary = simulated.summary
    for name in ("energy_joules", "facility_joules", "carbon_kg", "price", "compute_error"):
        assert footprint.get(name) == getattr(summary, name), name


def test_a_device_that_does_not_fill_the_programs_own_step_bounds_it_uncertainly():
    """The recording explains 4 ms of work; alone the program takes 4 ms, or 6, which its host may fill."""
    t = ck.TraceBuilder()
    t.comp("gemm", stream=1, duration_ns=4_000_000)
    said = {}
    for alone in (4_000_000, 6_000_000):
        card = RecordedStep(unprofiled_step_ns=alone).put(Card(name="r", tool="chakra link"))
        times = {0: Times(np.array([0]), np.array([4_000_000]))}
        traces = ck.TraceSet([t.build()], None, {}, card)
        found = ck.analyze(run_of(traces, times, tick_ps=1000))
        said[alone] = found.bound, found.bound_uncertain
    assert said == {4_000_000: ("device", False), 6_000_000: ("device", True)}


def test_a_campaigns_history_has_days_and_no_steps(two_ranks):
    analysis = ck.analyze(two_ranks)
    analysis.campaign = {"train": 23.0, "restart": 1.0}
    said = {answer.question: answer for answer in answers(analysis)}
    assert "How long is a step?" not in said
    assert said["How long does it take?"].figure.endswith(" days")


def test_energies_are_shown_with_four_digits(simulated):
    [table] = simulated.run().analyze().sections()["energy"]
    joules = [row[1] for row in table.rows]
    assert joules == [float(f"{j:.4g}") for j in joules]
    assert joules


def said(run: ck.Run) -> dict[str, str]:
    found = answers(ck.analyze(run, advice=False))
    return {a.question: f"{a.figure}: {a.sentence}" for a in found}


def test_a_host_alone_launches_nothing_and_does_not_idle(linked):
    found = said(linked("gpt_pp_2"))
    assert "Why is it idle?" not in found
    assert "the host's own time (Python, dispatch)" in found["What else takes time?"]


def test_messages_without_computation_are_no_pipeline(tmp_path: Path):
    """The last receiver has one row and waits for the fourth of rank 0."""
    sends = "".join(f"s{i}: send 8b to {i} tag 0\n" for i in range(1, 5))
    order = "".join(f"s{i} requires s{i - 1}\n" for i in range(2, 5))
    receives = "".join(f"rank {i} {{\nr: recv 8b from 0 tag 0\n}}\n" for i in range(1, 5))
    goal = tmp_path / "sends.goal"
    goal.write_text(f"num_ranks 5\nrank 0 {{\n{sends}{order}}}\n{receives}")
    found = said(ck.simulate(goal, "dgx-h100").run())
    assert found["What is it bound by?"].startswith("communication")
    assert "How long do ranks wait for messages?" in found
    assert "computation" not in found["How sure are the times?"]


def test_what_hangs_has_no_step():
    traces = ck.generate(model="gpt3-125m", tp=2, seq=128, global_batch=1).traces
    with pytest.raises(ck.DeadlockError) as hang:
        ck.simulate(traces, "dgx-h100", compute="roofline", faults=["device:1@1e5=0"])
    found = said(hang.value.simulation.run())
    assert "How long is a step?" not in found
    assert found["How far did it come?"].endswith("it does not end.")


def test_who_is_late_comes_before_what_takes_less(linked):
    """One of two ranks waits for the other during half of this step."""
    found = answers(ck.analyze(linked("cnn_ddp_2")))
    order = [a.question for a in found]
    late = found[order.index("Who makes others wait?")]
    assert late.share > 0.4
    assert order.index(late.question) < order.index("How much communication is exposed?") < 5


def test_use_of_the_device_says_that_it_is_of_more_than_a_usual_step():
    """A step of 1 ms and one of 3: the rate is of both, the step that is said is of one."""

    def run(*steps_ms: float) -> ck.Run:
        t, at, starts, ends = ck.TraceBuilder(), 0, [], []
        for step, length in enumerate(steps_ms):
            t.comp("aten::mm", stream=7, num_ops=10**9, step=step, duration_ns=int(length * 1e6))
            starts.append(at)
            at += int(length * 1e6)
            ends.append(at)
        times = {0: Times(np.array(starts), np.array(ends))}
        return run_of(ck.TraceSet([t.build()]), times, tick_ps=1000)

    question = "How well is the device used?"
    uneven, even = (
        next(a for a in answers(ck.analyze(run(*steps))) if a.question == question)
        for steps in ((3.0, 1.0, 1.0), (1.0, 1.0, 1.0))
    )
    assert uneven.brief.endswith("over all 5.00 ms, not a usual step")
    assert even.brief == " per rank"


def test_a_rate_with_recomputation_is_printed_beside_the_share_that_it_is() -> None:
    plan = {"model": "gpt3-125m", "layers": 2, "seq": 256, "global_batch": 1}
    for recompute, both in (("full", True), ("none", False)):
        run = ck.simulate(ck.generate(recompute=recompute, **plan).traces, "dgx-h100").run()
        found = ck.analyze(run, peak_tflops=989.0, peak_gbps=3350.0)
        brief = next(a for a in answers(found) if a.question.startswith("How well")).brief
        assert (", HFU " in brief, ", MFU " in brief) == (both, True)
        assert found.roofline.hfu == pytest.approx(found.roofline.tflops_per_rank / 989.0)
