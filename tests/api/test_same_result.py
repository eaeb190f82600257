"""A function and its command give the same result; reprs stay on one screen."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import chakrakit as ck
from chakrakit.cli import main
from support.paths import DATA, EXAMPLES

PLAN = {"dp": 2, "tp": 2, "seq": 256, "global_batch": 4}
AXES = ["--seq", "256", "--pp", "1", "--tp", "1,2"]
FLAGS = ["--dp", "2", "--tp", "2", "--seq", "256", "--global-batch", "4"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Traces and two runs of them."""
    home = tmp_path_factory.mktemp("same")
    traces = ck.generate(model="gpt3-125m", **PLAN).traces
    ck.write(traces, home / "w")
    for name, machine in (("fast", "dgx-h100"), ("slow", "dgx-a100")):
        ck.simulate(traces, machine, compute="roofline", output=home / name)
    return home


def printed(capfdbinary: Any, *arguments: object) -> Any:
    main([*map(str, arguments), "--json"], standalone_mode=False)
    return json.loads(capfdbinary.readouterr().out)


def filled(word: str, places: dict[str, Path]) -> str:
    for name, place in places.items():
        word = word.replace(f"{{{name}}}", str(place))
    return word


STREAM = "poisson{rate=9,n=9,prompt=64,output=4}"

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
    "search": (
        [
            "search",
            "--model",
            "gpt3-125m",
            "--gpus",
            "8",
            "--machine",
            "dgx-h100",
            "--seq",
            "256",
            "--pp",
            "1",
            "--tp",
            "1,2",
        ],
        lambda _: ck.search("gpt3-125m", 8, "dgx-h100", seq=256, pp=[1], tp=[1, 2]),
    ),
    "serve": (
        [*["serve", "--model", "llama-3.1-8b", "--machine", "dgx-h100", "--requests"], STREAM],
        lambda _: ck.serve("llama-3.1-8b", "dgx-h100", STREAM),
    ),
    "search-serve": (
        [
            *[
                "search",
                "--serve",
                "--model",
                "llama-3.1-8b",
                "--machine",
                "dgx-h100",
                "--gpus",
                "2",
                "--slo",
                "ttft=90",
            ],
            *[
                "--batch-tokens",
                "512",
                "--batch-requests",
                "8",
                "--pools",
                "together",
                "--requests",
            ],
            STREAM,
        ],
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
}


@pytest.mark.parametrize("name", PAIRS)
def test_the_command_prints_what_the_function_gives(
    name: str, folder: Path, capfdbinary: Any
) -> None:
    words, function = PAIRS[name]
    places = {"home": folder, "w": folder / "w", "fast": folder / "fast", "slow": folder / "slow"}
    told = printed(capfdbinary, *(filled(word, places) for word in words))
    result = function(folder)
    assert json.loads(json.dumps(result.to_dict())) == told
    assert len(repr(result)) < 2000
    assert result._repr_html_().startswith("<table")
    assert result.to_arrow() is not None


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


def test_a_sweep_gives_what_its_command_prints(tmp_path: Path, capfdbinary: Any) -> None:
    study = tmp_path / "study.yaml"
    study.write_text(
        "workload: {model: gpt3-125m, step: {seq: 128, global_batch: 4}}\n"
        "axes: {plan.dp: [1, 2]}\nmachines: [dgx-h100]\n"
    )
    assert EXAMPLES.is_dir()
    told = printed(capfdbinary, "sweep", study, "-o", tmp_path / "a")
    result = ck.sweep(study, tmp_path / "b").to_dict()
    assert {k: result[k] for k in ("points", "failed") if k in told} == {
        k: told[k] for k in ("points", "failed") if k in told
    }
