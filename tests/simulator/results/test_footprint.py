"""Energy, carbon, price and tokens: said once by the simulation, and the same wherever a run is looked at."""

import json

import pytest
from click.testing import CliRunner

from chakrakit.commands import group
from chakrakit.trace.sets import footprint_of
from chakrakit.trace.storage import read
from chakrakit.views.app.session import AppSession
from chakrakit.views.app.shown_run import ShownRun

NAMES = (
    "energy_joules",
    "energy_by_class",
    "facility_joules",
    "carbon_kg",
    "price",
    "tokens_per_s",
)


def chakra(*words):
    done = CliRunner().invoke(group, [str(w) for w in words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.fixture(scope="module")
def simulated(tmp_path_factory):
    """A step on two machines: what `simulate --json` says, and the runs."""
    folder = tmp_path_factory.mktemp("footprint")
    model = ("--model", "gpt3-125m", "--layers", 2, "--dp", 4, "--seq", 512, "--global-batch", 8)
    chakra("generate", *model, "-o", folder / "w")
    said = {}
    for machine in ("dgx-h100", "dgx-h200"):
        out = chakra(
            "simulate", folder / "w", "--machine", machine, "-o", folder / machine, "--json"
        )
        said[machine] = json.loads(out)
    return folder, said


def test_the_figures_add_up(simulated):
    found = simulated[1]["dgx-h200"]
    seconds = found["makespan_ns"] * 1e-9
    assert found["energy_joules"] == pytest.approx(sum(found["energy_by_class"].values()))
    assert {"gemm", "attention", "communication", "idle"} <= set(found["energy_by_class"])
    assert found["tokens_per_s"] == pytest.approx(8 * 512 / seconds)
    assert found["price"] == pytest.approx(4 * 6.305 * seconds / 3600)
    servers = found["energy_joules"] * 1.098 + 4 / 8 * 1850 * seconds
    assert found["facility_joules"] == pytest.approx(1.3 * servers)
    assert found["carbon_kg"] == pytest.approx(found["facility_joules"] / 3.6e6 * 0.373)


@pytest.mark.slow
def test_analysis_comparison_report_and_view_say_what_the_simulation_said(simulated):
    folder, said = simulated
    runs = {name: folder / name for name in said}
    for name, run in runs.items():
        told = json.loads(chakra("analyze", run, "--json"))["footprint"]
        assert {n: told[n] for n in NAMES} == {n: said[name][n] for n in NAMES}
    compared = json.loads(chakra("compare", *runs.values(), "--json"))["metrics"]
    for n in set(NAMES) - {"energy_by_class"}:
        assert compared[n] == [said["dgx-h100"][n], said["dgx-h200"][n]]
    page = folder / "page.html"
    chakra("report", runs["dgx-h200"], "-o", page)
    figure = f"{said['dgx-h200']['energy_joules']:,.4g} J"
    assert figure in page.read_text()
    side = ShownRun(read(runs["dgx-h200"]), "run", [])
    session = AppSession([side])
    session.section(0, "Summary")
    side.findings.wait()
    assert figure in session.section(0, "Summary")["markup"]


def test_a_run_that_was_changed_says_nothing_of_what_it_took(simulated, tmp_path):
    folder, _ = simulated
    chakra(
        "transform",
        folder / "dgx-h200",
        "--pass",
        "edit{classes=gemm,scale=0.5}",
        "-o",
        tmp_path / "o",
    )
    assert footprint_of(read(folder / "dgx-h200").card) is not None
    assert footprint_of(read(tmp_path / "o").card) is None
