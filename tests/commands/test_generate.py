"""`chakra generate` and `chakra models`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import chakrakit as ck
from chakrakit.commands import main
from chakrakit.commands.generate import command
from chakrakit.commands.options import parameters_of
from support.commands import chakra, succeeded

PLAN = [
    "--model",
    "llama3.1-8b",
    "--layers",
    "4",
    "--dp",
    "2",
    "--tp",
    "2",
    "--pp",
    "2",
    "--seq",
    "128",
    "--global-batch",
    "8",
    "--micro-batch",
    "2",
    "--schedule",
    "1f1b",
]


def run(capfd, *arguments: str) -> str:
    main([*arguments], standalone_mode=False)
    return capfd.readouterr().out


def test_dry_run_json(capfd) -> None:
    found = json.loads(run(capfd, "generate", *PLAN, "--dry-run", "--json"))
    assert found["ranks"] == 8
    assert found["parameters"] == 4 * 218_112_000 + 2 * 128256 * 4096 + 4096
    assert found["flops_total"] == sum(c["flops"] * c["ranks"] for c in found["per_rank"])
    assert {c["rank_class"]: c["ranks"] for c in found["per_rank"]} == {"stage 0": 4, "stage 1": 4}
    for one in found["per_rank"]:
        kinds = {"parameters", "gradients", "optimizer", "activations"}
        assert one["memory"]["total"] == sum(one["memory"][k] for k in kinds)
        assert {"type", "group", "count", "bytes"} <= one["comm"][0].keys()
    assert 0 < found["bubble_fraction"] < 1


def test_writes_what_it_says(capfd, tmp_path: Path) -> None:
    text = run(capfd, "generate", *PLAN, "-o", str(tmp_path / "out"))
    assert "wrote 8 ranks in 2 bodies" in text
    info = json.loads(run(capfd, "info", str(tmp_path / "out"), "--json"))
    assert info["ranks"] == 8
    run(capfd, "generate", *PLAN, "-o", str(tmp_path / "w.N.et"))
    assert len(list(tmp_path.glob("w.*.et"))) == 8
    groups = json.loads((tmp_path / "w.json").read_text())
    assert [0, 1] in groups.values()  # tp is fastest


def test_a_file_with_options_over_it(capfd, tmp_path: Path) -> None:
    file = tmp_path / "w.yaml"
    file.write_text("model: {base: llama3.1-8b, layers: 2}\nplan: {tp: 2}\nstep: {seq: 64}\n")
    found = json.loads(
        run(capfd, "generate", str(file), "--tp", "4", "--no-sequence-parallel", "--json")
    )
    assert found["ranks"] == 4
    assert {c["type"] for c in found["per_rank"][0]["comm"]} == {"ALL_REDUCE"}


def test_refusals_are_one_line(capfd) -> None:
    with pytest.raises(SystemExit):
        main(["generate", "--model", "llama3.1-8b", "--tp", "3"])
    assert "error: tp 3 does not divide llama3.1-8b's 32 heads; use" in capfd.readouterr().err
    with pytest.raises(SystemExit):
        main(["generate", "--model", "llama3.1-70b", "--memory-gib", "80", "--dry-run"])
    assert "shard more" in capfd.readouterr().err
    with pytest.raises(SystemExit):
        main(["generate"])
    assert "no model; give --model" in capfd.readouterr().err


@pytest.mark.slow
def test_models(capfd) -> None:
    rows = json.loads(run(capfd, "models", "--json"))["models"]
    assert {r["name"]: r["parameters"] for r in rows}["llama3.1-8b"] == 8_030_261_248
    assert "mixtral-8x7b" in run(capfd, "models")
    assert json.loads(run(capfd, "models", "dit-xl-2"))["family"] == "diffusion"


def test_a_plan_that_does_not_fit_the_machine_says_so(capfd) -> None:
    big = ["--model", "llama-3.1-70b", "--tp", "8", "--seq", "4096", "--global-batch", "8"]
    said = run(capfd, "generate", *big, "--machine", "dgx-h100", "--dry-run")
    assert said.startswith("DOES NOT FIT: ")
    assert "its device has 79.2 GiB" in said.splitlines()[0]
    with pytest.raises(SystemExit):
        main(["generate", *big, "--memory-gib", "74.5", "--dry-run"], standalone_mode=False)
    assert "the device has 74.5" in capfd.readouterr().err


def test_every_option_says_what_it_is() -> None:
    told = {option.name: getattr(option, "help", None) for option in command.params}
    assert told["tp"] == "Tensor parallelism: ranks that share each layer.  [default: 1]"
    assert told["hidden"] == "Width of the residual stream."
    bare = [name for name, text in told.items() if name != "workload" and len(text or "") < 15]
    assert not bare


SMALL = {"dp": 2, "seq": 64, "global_batch": 2}


def test_a_workload_by_name_is_the_one_by_description() -> None:
    made = ck.generate(model="gpt3-125m", **SMALL)
    again = ck.generate(made.workload)
    assert again.figures == made.figures
    assert made.workload.plan.dp == 2


def test_traces_are_written_where_they_are_wanted(tmp_path: Path) -> None:
    ck.generate(model="gpt3-125m", output=tmp_path / "w", **SMALL)
    assert ck.read(tmp_path / "w").ranks == (0, 1)


def test_memory_is_a_limit_and_a_machine_a_verdict() -> None:
    with pytest.raises(ck.ConfigError, match="GiB"):
        ck.generate(model="gpt3-125m", memory_gib=0.5, **SMALL)
    figures = ck.generate(model="gpt3-125m", machine="dgx-h100", **SMALL).figures
    assert (figures.fits, figures.has_bytes) == (True, int(79.18 * 2**30))


@pytest.mark.parametrize(
    ("words", "fields"),
    [
        (["--dp", "4"], {"dp": 4}),
        (["--schedule", "1f1b"], {"schedule": "1f1b"}),
        (["--split", "8,8,7"], {"split": [8, 8, 7]}),
        (["--no-tied"], {"tied": False}),
    ],
)
def test_words_become_values_of_the_fields_type(
    words: list[str], fields: dict[str, object]
) -> None:
    given = command.make_context("generate", words).params
    parameters = {p.name: p for p in parameters_of(ck.generate)}
    read = {name: parameters[name].value_of(given[name]) for name in fields}
    assert read == fields


def test_a_list_of_words_is_refused_with_an_example() -> None:
    with pytest.raises(
        ck.ConfigError, match="--split a: give whole numbers with commas, like 1,2,4"
    ):
        ck.generate(model="gpt3-125m", split="a")


SECTIONS = """
sections:
  vision: {model: vit-b-16, plan: {dp: 2}, share: 0.5}
  language: {model: gpt3-125m, plan: {dp: 2}, after: [vision], ranks_of: vision}
step: {seq: 128, global_batch: 4, steps: 2}
"""


@pytest.mark.slow
def test_steps_of_sections_are_written_one_by_one(tmp_path: Path) -> None:
    """Each has its own samples, so that the two differ; in one trace they are refused with the way out."""
    file = tmp_path / "sections.yaml"
    file.write_text(SECTIONS)
    assert "--series" in chakra("generate", file, "-o", tmp_path / "one").output
    assert (
        "give -o a name" in chakra("generate", file, "--series", "-o", tmp_path / "a.N.et").output
    )
    succeeded("generate", str(file), "--series", "-o", str(tmp_path / "each"))
    made = ck.generate(str(file)).series
    for step in range(2):
        written = ck.read(tmp_path / "each" / f"step-{step}")
        assert [len(written.trace(r)) for r in written.ranks] == [
            len(made[step].trace(r)) for r in made[step].ranks
        ]
