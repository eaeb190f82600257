"""A function and its command give the same result; reprs stay on one screen."""

from __future__ import annotations

import json
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

import chakrakit as ck
from chakrakit.commands import main
from chakrakit.commands.schemas import RESULTS, result_type
from chakrakit.results import Result
from support.astra_cases import system, write_files
from support.paths import DATA

PLAN = {"dp": 2, "tp": 2, "seq": 256, "global_batch": 4}
AXES = ["--seq", "256", "--pp", "1", "--tp", "1,2"]
SIZES = ["--sizes", "1KiB:1MiB"]
CONSTANTS = ["--machine", "dgx-h100", "-o", "{home}/library.json"]
JOB = """
step_seconds: 10
steps: 864
cluster: {nodes: 16, spares: 1, repair_hours: 24}
failures: {node_mtbf_hours: 500}
checkpoint: {interval_steps: 100, seconds: 5}
recovery: {policy: restart, detection_seconds: 60, restart_seconds: 300}
"""
ASTRA_FILES = ("system.json", "network.yml", "memory.json")
FLAGS = ["--dp", "2", "--tp", "2", "--seq", "256", "--global-batch", "4"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Traces and two runs of them."""
    home = tmp_path_factory.mktemp("same")
    traces = ck.generate(model="gpt3-125m", **PLAN).traces
    ck.write(traces, home / "w")
    for name, machine in (("fast", "dgx-h100"), ("slow", "dgx-a100")):
        ck.simulate(traces, machine, compute="roofline", output=home / name)
    (home / "job.yaml").write_text(JOB)
    write_files(home, system("direct"), ranks=4)
    sizes = [1 << n for n in range(8, 32, 1)]
    rows = [f"all-reduce,8,{size},{10 + size / 200e3}" for size in sizes]
    (home / "table.csv").write_text("\n".join(["collective,members,bytes,time_us", *rows]))
    return home


def printed(capfdbinary: Any, *arguments: object) -> Any:
    command, *words = map(str, arguments)
    main([command, "--json", *words], standalone_mode=False)
    return json.loads(capfdbinary.readouterr().out)


def filled(word: str, places: dict[str, Path]) -> str:
    for name, place in places.items():
        word = word.replace(f"{{{name}}}", str(place))
    return word


STREAM = "poisson{rate=9,n=9,prompt=64,output=4}"

SERVED = """
search --serve --model llama-3.1-8b --machine dgx-h100 --gpus 2 --slo ttft=90
--batch-tokens 512 --batch-requests 8 --pools together --requests
"""

Pair = tuple[list[str], Callable[[Path], Any]]
PAIRS: dict[str, Pair] = {
    "info": (["info", "{w}"], lambda home: ck.info(home / "w")),
    "validate": (["validate", "{w}"], lambda home: ck.validate(home / "w")),
    "convert": (
        ["convert", "{w}", "{home}/a.N.json"],
        lambda home: ck.convert(home / "w", home / "b.N.json"),
    ),
    "query": (
        ["query", "{w}", "SELECT type, count(*) FROM nodes GROUP BY type ORDER BY type"],
        lambda home: ck.query(
            home / "w", "SELECT type, count(*) FROM nodes GROUP BY type ORDER BY type"
        ),
    ),
    "export": (
        ["export", "{fast}", "{home}/a.pftrace"],
        lambda home: ck.export(home / "fast", home / "b.pftrace"),
    ),
    "generate": (
        ["generate", "--model", "gpt3-125m", *FLAGS],
        lambda _: ck.generate(model="gpt3-125m", **PLAN),
    ),
    "models": (["models"], lambda _: ck.models()),
    "machines": (["machines"], lambda _: ck.list_machines()),
    "transform": (
        ["transform", "{w}", "--pass", "select{ranks=[0, 1]}", "-o", "{home}/part"],
        lambda home: ck.transform(home / "w", "select{ranks=[0, 1]}"),
    ),
    "simulate": (
        ["simulate", "{w}", "--machine", "dgx-h100", "--compute", "roofline"],
        lambda home: ck.simulate(home / "w", "dgx-h100", compute="roofline"),
    ),
    "analyze": (
        ["analyze", "{fast}", "--faster", "compute=2"],
        lambda home: ck.analyze(home / "fast", faster={"compute": 2}),
    ),
    "compare": (
        ["compare", "{fast}", "{slow}"],
        lambda home: ck.compare(home / "fast", home / "slow"),
    ),
    "report": (
        ["report", "{fast}", "-o", "{home}/a.html"],
        lambda home: ck.report(home / "fast", home / "b.html"),
    ),
    "collective": (
        ["collective", "all-reduce", "--machine", "dgx-h200", "--members", "8", *SIZES],
        lambda _: ck.collective("all-reduce", "dgx-h200", 8, "1KiB:1MiB"),
    ),
    "campaign": (
        ["campaign", "{home}/job.yaml", "--histories", "5"],
        lambda home: ck.campaign(home / "job.yaml", histories=5),
    ),
    "calibrate": (
        ["calibrate", "{home}/table.csv", "--collectives", *CONSTANTS],
        lambda home: ck.calibrate(
            home / "table.csv", output=home / "library.json", collectives=True, machine="dgx-h100"
        ),
    ),
    "search": (
        ["search", "--model", "gpt3-125m", "--gpus", "8", "--machine", "dgx-h100", *AXES],
        lambda _: ck.search("gpt3-125m", 8, "dgx-h100", seq=256, pp=[1], tp=[1, 2]),
    ),
    "serve": (
        [*["serve", "--model", "llama-3.1-8b", "--machine", "dgx-h100", "--requests"], STREAM],
        lambda _: ck.serve("llama-3.1-8b", "dgx-h100", STREAM),
    ),
    "search-serve": (
        [*SERVED.split(), STREAM],
        lambda _: ck.search(
            "llama-3.1-8b",
            2,
            "dgx-h100",
            serve=True,
            requests=STREAM,
            slo="ttft=90",
            batch_tokens=[512],
            batch_requests=[8],
            pools=["together"],
        ),
    ),
    "simulate-astra": (
        ["simulate", "{w}", "--astra", "{system}", "{network}", "{memory}", "--backend", "aware"],
        lambda home: ck.simulate(
            home / "w", astra=[home / name for name in ASTRA_FILES], backend="aware"
        ),
    ),
    "machine": (["machines", "dgx-h100:2"], lambda _: ck.list_machines("dgx-h100:2")),
    "passes": (["transform", "--list"], lambda _: ck.list_passes()),
}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] * (n == "search")) for n in PAIRS]
)
def test_the_command_prints_what_the_function_gives(
    name: str, folder: Path, capfdbinary: Any
) -> None:
    words, function = PAIRS[name]
    places = {"home": folder, **{name: folder / name for name in ("w", "fast", "slow")}}
    places |= {name.partition(".")[0]: folder / name for name in ASTRA_FILES}
    told = printed(capfdbinary, *(filled(word, places) for word in words))
    result = function(folder)
    assert json.loads(json.dumps(result.to_dict())) == told
    assert len(repr(result)) < 2000
    assert result._repr_html_().startswith("<table")
    assert result.to_arrow() is not None


@pytest.mark.parametrize("command", RESULTS)
def test_every_result_can_be_looked_at_and_taken_elsewhere(command: str) -> None:
    kind = result_type(command)
    items = get_args(kind) or (kind,)  # of a list, each
    assert all(issubclass(item, Result) for item in items)


def test_link_gives_what_its_command_prints(tmp_path: Path, capfdbinary: Any) -> None:
    recording = DATA / "pytorch" / "gpt_pp_2"
    told = printed(capfdbinary, "link", recording, "-o", tmp_path / "run")
    linked = ck.link(recording)
    assert json.loads(json.dumps(linked.to_dict())) == told
    run, report = linked
    assert run is linked.run
    assert report is linked.report


def test_bundle_gives_what_its_command_prints(
    folder: Path, tmp_path: Path, capfdbinary: Any
) -> None:
    told = printed(capfdbinary, "bundle", folder / "w", "-o", tmp_path / "a.chakra")
    made = ck.bundle(folder / "w", tmp_path / "b.chakra").to_dict()
    assert {m["name"]: m["sha256"] for m in made["members"]} == {
        m["name"]: m["sha256"] for m in told["members"]
    }
    assert ck.bundle(tmp_path / "b.chakra").ok


@pytest.mark.slow
def test_a_run_knows_its_step_its_ranks_and_its_analysis(folder: Path) -> None:
    run = ck.read(folder / "fast")
    assert isinstance(run, ck.Run)
    assert run.step_ms == pytest.approx(run.analyze().steps.median_ns / 1e6)
    assert len(run[3]) == len(run.trace(3))
    graph = run.to_networkx(0)
    assert graph.number_of_nodes() == len(run[0])
    assert graph.number_of_edges() == len(run[0].edges)
    assert run.plot().svg.startswith("<svg")
    assert len(repr(run)) < 2000


def test_a_comparison_has_a_picture(folder: Path, tmp_path: Path) -> None:
    ck.compare(folder / "fast", folder / "slow").plot().save(tmp_path / "why.svg")
    assert (tmp_path / "why.svg").read_text().startswith("<svg")


def test_what_has_no_picture_says_so() -> None:
    with pytest.raises(ck.ConfigError, match="has no picture"):
        ck.models().plot()


def test_results_become_data_frames(folder: Path) -> None:
    frame = ck.simulate(folder / "w", "dgx-h100", compute="roofline").to_pandas()
    assert list(frame["rank"]) == [0, 1, 2, 3]


def test_a_field_that_a_workload_does_not_have_is_refused() -> None:
    with pytest.raises(ck.ConfigError, match="did you mean 'global_batch'"):
        ck.generate(model="gpt3-125m", global_bach=4)


@pytest.mark.slow
def test_a_sweep_gives_what_its_command_prints(tmp_path: Path, capfdbinary: Any) -> None:
    study = tmp_path / "study.yaml"
    study.write_text(
        "workload: {model: gpt3-125m, step: {seq: 128, global_batch: 4}}\n"
        "axes: {plan.dp: [1, 2]}\nmachines: [dgx-h100]\n"
    )
    told = printed(capfdbinary, "sweep", study, "-o", tmp_path / "a", "--jobs", "1")
    result = ck.sweep(study, tmp_path / "b", jobs=1).to_dict()
    assert result | {"table": ""} == told | {"table": ""}
    assert (told["points"], told["failed"]) == (2, 0)


PROGRAM = """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8))
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(4):
    model(torch.randn(4, 8)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
LOCAL = PROGRAM.replace('dist.init_process_group("gloo")', "").replace(
    "torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8))", "torch.nn.Linear(8, 8)"
)
"""The same without ranks."""


@pytest.mark.slow
def test_capture_gives_what_its_command_prints(tmp_path: Path, capfdbinary: Any) -> None:
    pytest.importorskip("torch")
    script = tmp_path / "train.py"
    script.write_text(PROGRAM)
    told = printed(capfdbinary, "capture", "--ranks", 4, "--", "python", script)
    with ck.capture(ranks=4) as made:
        runpy.run_path(str(script))
    found = made.report.to_dict()
    assert len(repr(made.report)) < 2000
    same = ("ranks", "kinds", "collectives")
    assert {k: found[k] for k in same} == {k: told[k] for k in same}


SCRIPT = LOCAL.replace("8, 8", "WIDTH, WIDTH").replace("4, 8", "4, WIDTH")


@pytest.mark.slow
def test_a_search_over_flags_gives_what_its_command_prints(
    tmp_path: Path, capfdbinary: Any
) -> None:
    pytest.importorskip("torch")
    script = tmp_path / "train.py"
    script.write_text("import sys; WIDTH = int(sys.argv[1])\n" + SCRIPT)
    command = f"python {script} {{width}}"
    words = ["search", "--capture", command, "--axis", "width=8,16", "--gpus", "1"]
    told = printed(capfdbinary, *words, "--machine", "dgx-h100", "--compute", "roofline")
    found = ck.search(None, 1, "dgx-h100", capture=command, compute="roofline", width=["8", "16"])
    assert json.loads(json.dumps(found.to_dict())) == told
    assert told["best"]["flags"] == {"width": "8"}


def test_a_model_is_described_as_its_command_prints_it(capfdbinary: Any) -> None:
    told = printed(capfdbinary, "models", "llama3.1-8b")
    assert msgspec.to_builtins(ck.models("llama3.1-8b")) == told


@pytest.mark.slow
def test_collect_gives_what_its_command_prints(tmp_path: Path, capfdbinary: Any) -> None:
    """Two recordings differ in their times; ranks, steps and what was linked are the same."""
    torch = pytest.importorskip("torch")
    script = tmp_path / "train.py"
    script.write_text(LOCAL)
    words = ["collect", "--steps", "1:3", "-o", tmp_path / "a", "--", sys.executable, script]
    told = printed(capfdbinary, *words)
    model = torch.nn.Linear(8, 8)
    optimizer = torch.optim.AdamW(model.parameters())
    with ck.collect(tmp_path / "b", steps=(1, 3)) as recording:
        for _ in range(4):
            model(torch.randn(4, 8)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            recording.step()
    found = recording.report.to_dict()
    assert set(found) == set(told)
    assert linked_of(found) == linked_of(told)


def linked_of(report: dict[str, Any]) -> list[Any]:
    """Of each rank its number, its steps, and whether every operator was linked."""
    whole = [r["host_ops"]["in"] == r["host_ops"]["linked"] > 0 for r in report["ranks"]]
    steps = [[s["step"] for s in r["steps"]] for r in report["ranks"]]
    return [[r["rank"] for r in report["ranks"]], steps, whole]


@pytest.mark.slow
def test_replay_gives_what_its_command_prints(tmp_path: Path, capfdbinary: Any) -> None:
    """All but the times, which are measured anew."""
    pytest.importorskip("torch")
    t = ck.TraceBuilder()
    first = t.comp("first", duration_ns=1_000_000)
    t.collective("sum", ck.CollectiveType.ALL_REDUCE, 1 << 10, deps=[first], duration_ns=1)
    ck.write(ck.TraceSet([t.build()] * 2, groups=ck.Groups({"0": [0, 1]})), tmp_path / "w")
    words = ["replay", tmp_path / "w", "--mode", "emulate", "--iterations", "2"]
    told = printed(capfdbinary, *words)
    report = ck.replay(tmp_path / "w", mode="emulate", iterations=2).to_dict()
    assert set(report) == set(told)
    assert report["coverage"] == told["coverage"] == {"count": 1.0, "time": 1.0}
    ranks = [[(r["rank"], r["recorded_rank"]) for r in found["ranks"]] for found in (report, told)]
    assert ranks[0] == ranks[1] == [(0, 0), (1, 1)]
