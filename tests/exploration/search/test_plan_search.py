"""The search finds what simulating every plan finds, and says why the others lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from chakrakit.errors import ConfigError
from chakrakit.exploration.bound import Bounds
from chakrakit.exploration.search import SearchResult, machine_for, search, space_of, workloads
from chakrakit.machines import load_machine
from chakrakit.machines.device import Roofline
from chakrakit.simulator.results import simulate
from chakrakit.workloads.description import Decoder, Step, Workload
from chakrakit.workloads.generate import generate
from support.small_space import FEW, MODEL, STEP

MIXED = Decoder(
    name="moe",
    layers=4,
    hidden=1024,
    heads=8,
    vocab=32000,
    ffn=2048,
    experts=8,
    top_k=2,
    expert_ffn=1024,
)


def best_of_all(
    model: Decoder, machine: str, given: dict[str, list[Any]], compute: str = "auto"
) -> float:
    """The shortest step of every plan for 8 devices that fits, each simulated."""
    made = load_machine(machine)
    bounds, found = Bounds(made, Roofline()), []
    for workload in workloads(space_of(model, [8], STEP, given), model, STEP):
        if bounds.memory(workload) <= made.devices[0].memory:
            found.append(simulate(generate(workload), made, compute=compute).makespan_ns)
    assert found
    return min(found)


@pytest.fixture(scope="module")
def answer() -> tuple[SearchResult, Workload]:
    return search(MODEL, STEP, [8], "dgx-h100", fixed=FEW, runners=3)


@pytest.mark.slow
def test_it_is_as_good_as_simulating_everything(answer: tuple[SearchResult, Workload]) -> None:
    found, workload = answer
    assert found.best.step_ns == best_of_all(MODEL, "dgx-h100", FEW)
    again = simulate(generate(workload), found.machine)
    assert again.makespan_ns == found.best.step_ns
    assert found.best.fits
    count = len(list(workloads(space_of(MODEL, [8], STEP, FEW), MODEL, STEP)))
    assert found.evaluated + found.pruned == count


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "machine", "given", "compute"),
    [
        (
            MODEL.replace(layers=4),
            "dgx-h100",
            {"recompute": ["none"], "micro_batch": [1, 2]},
            "auto",
        ),
        (
            MIXED,
            "dgx-h100",
            {"recompute": ["none"], "schedule": ["1f1b"], "micro_batch": [1]},
            "auto",
        ),
        (MODEL, "ethernet-100g:8", FEW, "auto"),
        (MODEL, "dgx-h100", FEW, "roofline"),
    ],
)
def test_it_is_as_good_in_larger_spaces(
    model: Decoder, machine: str, given: dict[str, list[Any]], compute: str
) -> None:
    found, _ = search(model, STEP, [8], machine, fixed=given, compute=compute)
    assert found.best.step_ns == best_of_all(model, machine, given, compute)


@pytest.mark.slow
def test_runners_up_are_ranked_and_say_why(answer: tuple[SearchResult, Workload]) -> None:
    found, _ = answer
    values = [r.value for r in found.runners_up if r.fits]
    assert len(values) == 3
    assert [found.best.value, *values] == sorted([found.best.value, *values])
    for one in found.runners_up:
        assert "longer" in one.why
        assert sum(one.parts.values()) == pytest.approx(one.step_ns)
    assert "compute" in found.best.why


@pytest.mark.slow
def test_a_plan_that_would_win_if_it_fitted_is_told(
    answer: tuple[SearchResult, Workload], tmp_path: Path
) -> None:
    """On devices whose memory is just too small for the best plan."""
    free, _ = answer
    machine = tmp_path / "small.yaml"
    machine.write_text(
        f"device: {{peak: {{bf16: 989.4 TFLOP/s}}, memory_bandwidth: 3350 GB/s, memory: "
        f"{free.best.memory_bytes - 1}}}\nnetwork: [{{topology: switch, size: 8, bandwidth: 450 GB/s}}]\n"
    )
    tight, workload = search(MODEL, STEP, [8], str(machine), fixed=FEW)
    assert simulate(generate(workload), str(machine)).makespan_ns == tight.best.step_ns
    assert tight.best.memory_bytes < free.best.memory_bytes
    over = [r for r in tight.runners_up if not r.fits]
    assert over
    assert all(r.value < tight.best.value and "does not fit: needs" in r.why for r in over)
    assert tight.over_memory > 0


def test_nothing_fits(tmp_path: Path) -> None:
    machine = tmp_path / "tiny.yaml"
    machine.write_text(
        "device: {peak: {bf16: 1 TFLOP/s}, memory_bandwidth: 1 TB/s, memory: 1 MB}\n"
        "network: [{topology: switch, size: 8, bandwidth: 1 GB/s}]\n"
    )
    with pytest.raises(ConfigError, match=r"no plan fits: the smallest \(tp .* more devices"):
        search(MODEL, STEP, [8], str(machine), fixed=FEW)


@pytest.mark.slow
def test_energy_counts_work_and_price_counts_devices() -> None:
    """With no power when idle, the least computation wins; with few devices, the least waste."""
    energy, best = search(MODEL, STEP, [8], "dgx-h100", fixed=FEW, objective="energy")
    assert energy.best.recompute == "none"
    again = simulate(generate(best), load_machine("dgx-h100:1"))
    assert energy.best.value == pytest.approx(again.summary.energy_joules)
    price, _ = search(
        MODEL, STEP, [4, 8], "dgx-h100", fixed=FEW, objective="price", price_per_hour=3.6
    )
    assert price.best.gpus == 4
    assert price.best.value == pytest.approx(4 * price.best.step_ns * 1e-9 * 0.001)


def test_an_objective_without_figures_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"does not say what its devices cost; give --price-per-hour"
    ):
        search(MODEL, STEP, [8], "mi300x", objective="price")
    machine = tmp_path / "m.yaml"
    machine.write_text(
        "device: {peak: {bf16: 1 TFLOP/s}, memory_bandwidth: 1 TB/s}\n"
        "network: [{topology: switch, size: 8, bandwidth: 1 GB/s}]\n"
    )
    with pytest.raises(ConfigError, match="does not say what its devices draw; add `power"):
        search(MODEL, STEP, [8], str(machine), objective="energy")


def test_degrees_that_do_not_divide_the_devices_are_named() -> None:
    message = "no plan is feasible: no product of --tp 3,16, --pp 1, --cp 1 divides 4 or 8 devices"
    with pytest.raises(ConfigError, match=message):
        search(MODEL, STEP, [4, 8], "dgx-h100", fixed={"tp": [3, 16], "pp": [1]})


def test_a_preset_gets_the_nodes_it_needs() -> None:
    assert machine_for("dgx-h100", 256) == "dgx-h100:32"
    assert machine_for("dgx-h100", 8) == "dgx-h100"
    assert machine_for("tpu-v5p", 100_000) == "tpu-v5p:100000"
    with pytest.raises(ConfigError, match="8 devices and the workload 16"):
        machine_for("dgx-h100:1", 16)


@pytest.mark.parametrize("gpus", [[], [0]])
def test_no_gpus(gpus: list[int]) -> None:
    with pytest.raises(ConfigError, match="gpus should be"):
        search(MODEL, STEP, gpus, "dgx-h100")


def test_inference_is_not_searched() -> None:
    with pytest.raises(ConfigError, match="search is for training steps"):
        search(MODEL, Step(kind="decode"), [8], "dgx-h100")


def test_progress_counts_up_to_all_there_is() -> None:
    """What is done never exceeds what there is to do, and both are the same at the end."""
    calls: list[tuple[int, int | None]] = []
    search(MODEL, STEP, [8], "dgx-h100", fixed=FEW, runners=3, progress=lambda *n: calls.append(n))
    counted = [(done, most) for done, most in calls if most is not None]  # plans are listed first
    assert all(0 <= done <= most for done, most in counted)
    assert [done for done, _ in counted] == sorted(done for done, _ in counted)
    assert counted[-1][0] == counted[-1][1] > 0


def test_a_single_device_shards_nothing() -> None:
    alone, several = (space_of(MODEL, gpus, STEP, {}) for gpus in ([1], [8]))
    assert (alone.data, alone.tp, alone.pp) == (["ddp"], [1], [1])
    assert (several.data, several.tp) == (["zero1", "fsdp"], [1, 2, 4, 8])


@pytest.mark.parametrize(("objective", "word"), [("price", "dearer"), ("energy", "more energy")])
def test_other_plans_say_by_how_much_of_the_objective_they_lose(objective, word) -> None:
    result, _ = search(MODEL, STEP, [8], "dgx-h100", fixed=FEW | {"pp": [1]}, objective=objective)
    second = result.runners_up[0]
    more = 100 * (second.value / result.best.value - 1)
    assert second.why.startswith(f"{more:.1f} % {word}; its step ")
