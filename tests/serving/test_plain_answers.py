"""What a user is told of options: what they cost, what changes nothing, and how to give them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import chakrakit as ck
from chakrakit.errors import ChakraError, ConfigError
from chakrakit.serving import serving_of

BASE = ("llama-3.1-8b", "dgx-h100")
STREAM = "poisson{rate=4,n=12,prompt=256,output=8}"


def notes(stream: str = STREAM, engine: str = "vllm") -> str:
    return "\n".join(ck.serve(*BASE, stream, engine).notes)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"slo": "ttft=500ms"}, "give milliseconds without a unit, as in ttft=500"),
        ({"compute": "measured"}, "has no recorded times; give auto"),
        ({"engine": "vllm{max_num_seq=5}"}, "did you mean 'max_num_seqs'"),
    ],
)
def test_what_is_refused_says_what_to_give(options: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        ck.serve(*BASE, STREAM, **options)


def test_a_data_sheet_is_slower_than_all_of_it() -> None:
    """By the shares of its rates that measured devices reach, which a roofline takes whole."""
    sheet, roofline = (
        ck.serve(*BASE, STREAM, compute=compute) for compute in ("data-sheet", "roofline")
    )
    assert sheet.tpot_ms.mean > 1.1 * roofline.tpot_ms.mean
    assert "data-sheet" in sheet.step_times


@pytest.mark.parametrize("between", [",", " ", ", "])
def test_rates_of_a_file_may_be_apart_by_commas_or_spaces(tmp_path: Path, between: str) -> None:
    file = tmp_path / "rates"
    file.write_text(f"0{between}2\n10{between}8\n")
    stream = serving_of(*BASE, f"rates{{file={file},n=20,output=4}}").stream
    assert len(stream) == 20


def test_rates_that_are_no_numbers_are_refused_with_an_example(tmp_path: Path) -> None:
    file = tmp_path / "rates"
    file.write_text("seconds,rate\n0,2\n")
    with pytest.raises(ConfigError, match=r"as in `0, 2\.5`"):
        serving_of(*BASE, f"rates{{file={file}}}")


def test_priorities_are_told_and_said_to_be_unused(tmp_path: Path) -> None:
    """Figures and a column by priority; an engine that looks at them serves the lowest number first."""
    stream = "poisson{rate=400,n=60,prompt=64,output=16,priorities=2}"
    engine = "vllm{scheduling_policy=priority,max_num_seqs=4}"
    done = ck.serve(*BASE, stream, engine, output=tmp_path / "run")
    first, second = (done.priorities[p] for p in "01")
    assert first.requests + second.requests == 60
    assert first.ttft_ms.mean < 0.7 * second.ttft_ms.mean
    table = pq.read_table(tmp_path / "run" / "requests.parquet")
    assert set(table.column("priority").to_pylist()) == {0, 1}
    assert not any("priorities" in note for note in done.notes)
    assert "scheduling_policy=priority" in notes(stream)
    assert "priorities" not in notes()


def test_what_the_front_end_takes_is_no_wait_for_a_step(tmp_path: Path) -> None:
    """A request alone: what precedes its first step is the engine's front end, and no engine is busy."""
    stream = "closed{concurrency=1,n=1,prompt=100,output=20}"
    done = ck.serve(*BASE, stream, output=tmp_path / "run")
    assert done.queue_ms.mean == pytest.approx(done.frontend_ms)
    seen = ck.analyze(tmp_path / "run").serving
    assert seen is not None
    (engine,) = seen.engines
    assert engine.waits == {"the engine's front end": pytest.approx(1.0)}
    assert engine.busy == pytest.approx(1 - done.frontend_ms / done.e2e_ms.mean, rel=0.01)


@pytest.mark.parametrize("engine", ["trtllm", "vllm"])
def test_the_arithmetic_of_a_cache_adds_up_as_it_is_written(engine: str) -> None:
    """With the weights that the model has, whether the share is of all memory or of what is free."""
    text = ck.serve(*BASE, STREAM, engine).kv.arithmetic
    memory, weights, activations, reserves, left = (
        float(re.search(rf"([\d.]+) GB{after}", text)[1])  # type: ignore[index]
        for after in (" of memory", " of weights", " of activations", " of reserves", ", or")
    )
    share = float(re.search(r"which (\d+)%", text)[1]) / 100  # type: ignore[index]
    of_free = "less 16.1 GB of weights, of which" in text
    assert of_free == (engine == "trtllm")
    usable = (memory - weights) * share if of_free else memory * share - weights
    assert weights == 16.1
    assert usable - activations - reserves == pytest.approx(left, abs=0.3)


HYBRID = {
    "model_type": "mamba2", "hidden_size": 2560, "num_hidden_layers": 64, "state_size": 128,
    "num_heads": 80, "head_dim": 64, "n_groups": 1, "vocab_size": 50288, "tie_word_embeddings": True,
}  # fmt: skip


def test_states_that_tokens_share_are_said(tmp_path: Path) -> None:
    """A state of a fixed size has no bytes a token but by the length of requests."""
    file = tmp_path / "config.json"
    file.write_text(json.dumps(HYBRID))
    recurrent = ck.serve(str(file), "dgx-h100", STREAM).kv.arithmetic
    assert "shared out over requests of 264 tokens" in recurrent
    assert "shared out" not in ck.serve(*BASE, STREAM).kv.arithmetic


def test_drafts_that_cost_nothing_are_said() -> None:
    assert "give draft_ms" in notes(engine="vllm{num_speculative_tokens=3}")
    assert "draft_ms" not in notes(engine="vllm{num_speculative_tokens=3,draft_ms=1}")
    assert "draft_ms" not in notes()


def test_seconds_that_nobody_named_are_said(tmp_path: Path) -> None:
    table = tmp_path / "requests.csv"
    for name, said in (("timestamp", True), ("arrival_s", False)):
        table.write_text(f"{name},prompt,output\n0,100,4\n1,100,4\n")
        assert ("taken for seconds" in notes(str(table))) == said
    table.write_text("timestamp,prompt,output\n2024-05-01 10:00:00,9,4\n2024-05-01 10:00:01,9,4\n")
    assert "taken for seconds" not in notes(str(table))


def test_a_prefix_longer_than_prompts_is_said() -> None:
    assert "12 of 12 prompts are shorter than prefix=512" in notes(
        "poisson{rate=4,n=12,prompt=256,output=8,prefix=512}"
    )
    assert "prefix" not in notes("poisson{rate=4,n=12,prompt=256,output=8,prefix=128}")


def test_a_table_of_requests_is_no_trace(tmp_path: Path) -> None:
    ck.serve(*BASE, STREAM, output=tmp_path / "run")
    with pytest.raises(ChakraError, match="a table of served requests"):
        ck.info(tmp_path / "run" / "requests.parquet")
