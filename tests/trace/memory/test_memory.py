"""One account of memory: from plan to page, every room says the same number of bytes."""

import json

import pytest
from click.testing import CliRunner

from chakrakit import read, write
from chakrakit.commands import group
from chakrakit.trace.memory import KINDS, allocations_of, model_state

PLANS = {
    "tp and pp": "--tp 2 --dp 2 --pp 2 --seq 512 --global-batch 4",
    "fsdp": "--dp 4 --data fsdp --seq 512",
    "zero1": "--dp 4 --data zero1 --seq 512 --recompute full",
    "decode": "--kind decode --tp 2 --global-batch 4 --seq 512",
}


def told(*words):
    """What a command prints as JSON."""
    result = CliRunner().invoke(group, [str(w) for w in (*words, "--json")], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.fixture(scope="module", params=PLANS)
def plan(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("plan")
    words = PLANS[request.param].split()
    model = ("--model", "llama-3.1-8b", "--layers", "4", "-o", folder / "w")
    made = told("generate", *model, *words, "--machine", "dgx-h100")
    return folder, made


@pytest.mark.slow
def test_every_room_says_the_same(plan):
    folder, made = plan
    most = max(c["memory"]["total"] for c in made["per_rank"])
    ran = told("simulate", folder / "w", "--machine", "dgx-h100", "-o", folder / "run")
    looked = told("analyze", folder / "run")
    counted = read(folder / "run").counters["memory"]["bytes"].to_pylist()
    assert {
        made["needs_bytes"],
        max(r["peak_bytes"] for r in ran["ranks"]),
        ran["needs_bytes"],
        looked["memory"]["peak_bytes"],
        looked["needs_bytes"],
        max(counted),
        max(m["bytes"] for r in looked["memory"]["ranks"] for m in r["timeline"]),
    } == {most}
    assert made["fits"] is ran["fits"] is looked["fits"] is True
    assert made["has_bytes"] == ran["has_bytes"] == looked["has_bytes"] == int(79.18 * 2**30)


@pytest.mark.first(3)
def test_kinds_add_up_and_are_those_of_the_plan(plan):
    folder, made = plan
    for one in made["per_rank"]:
        found = allocations_of(read(folder / "w").body(one["first_rank"]))
        planned = {k: v for k, v in one["memory"].items() if k != "total" and v}
        assert found.by_kind() == planned
        assert sum(h.bytes for h in found.holders()) == found.peak_bytes == one["memory"]["total"]
        assert set(planned) <= set(KINDS)


@pytest.mark.first(8)
@pytest.mark.parametrize(
    "name", ["x.N.et", "x.N.et.zst", "x.N.json", "x.N.parquet", "d", "b.chakra"]
)
def test_every_format_keeps_it(plan, name, tmp_path):
    folder, _ = plan
    before = read(folder / "w")
    write(before, tmp_path / name)
    after = read(tmp_path / name.replace(".N.", " ").split()[0])
    assert allocations_of(after.trace(0)).by_kind() == allocations_of(before.trace(0)).by_kind()


@pytest.mark.first(1)
def test_the_page_and_the_timeline_say_it(plan, tmp_path):
    folder, made = plan
    words = ["simulate", folder / "w", "--machine", "dgx-h100", "-o", tmp_path / "run"]
    told(*words)
    timeline = tmp_path / "t.json"
    CliRunner().invoke(group, ["export", str(tmp_path / "run"), str(timeline)])
    events = json.loads(timeline.read_text())["traceEvents"]
    drawn = [e["args"]["bytes"] for e in events if e.get("ph") == "C" and e["name"] == "memory"]
    assert max(drawn) == max(c["memory"]["total"] for c in made["per_rank"])


def test_a_plan_that_does_not_fit_says_so_first(tmp_path):
    big = ["--model", "llama-3.1-405b", "--tp", "8", "--layers", "16", "--seq", "512"]
    machine, folder = ["--machine", "dgx-h100"], str(tmp_path / "w")
    found = told("generate", *big, *machine, "-o", folder)
    for words in (["generate", *big, *machine], ["simulate", folder, *machine]):
        said = CliRunner().invoke(group, words, catch_exceptions=False).stdout
        assert said.startswith("DOES NOT FIT: ")
    assert found["fits"] is False
    assert found["needs_bytes"] > found["has_bytes"] == int(79.18 * 2**30)


def test_shards_follow_the_number_of_replicas(tmp_path):
    """Scaled to eight replicas, a plan holds what one generated for eight does."""
    model = ["--model", "llama-3.1-8b", "--layers", "2", "--seq", "256", "--data", "zero1"]
    for dp in (4, 8):
        told("generate", *model, "--dp", dp, "-o", tmp_path / f"{dp}")
    scale = ["--pass", "scale-ranks{ranks=8}", "-o", tmp_path / "scaled"]
    told("transform", tmp_path / "4", *scale)
    wanted, found = (model_state(read(tmp_path / n).body(0)) for n in ("8", "scaled"))
    assert found == wanted
