"""Cards of workloads: CCL-Bench's fields are read, mistakes are named, what is known is filled in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from chakrakit import Card, TraceBuilder, TraceSet, read
from chakrakit.errors import ConfigError
from chakrakit.trace.storage import (
    check_bundle,
    fields_from,
    overlaid,
    read_card_file,
    write_bundle,
)
from chakrakit.trace.storage.bundle import workload_card
from chakrakit.trace.storage.cards import WorkloadCard, card_from, fields, plain_card
from support.paths import DOCS

# A card as CCL-Bench has them: every section, lists and nulls as people write them.
CARD = """
version: 1
description: Llama on four devices
hf_url: https://huggingface.co/meta-llama/Llama-3.1-8B
trace_url: https://example.org/trace
contributor: Somebody
contact: somebody@example.org
workload:
  model:
    phase: training
    moe: false
    granularity: model_fwd_bwd_pass
    model_family: llama-3.1-8b
    precision: bf16
    epochs: 1
    iteration: 10
    model_arch: {num_params: 8030261248, num_params_embedding: 525336576, num_layers: 32, num_heads: 32, head_dim: 128}
  data: {batch_size: 32, batch_size_scope: global, seq_len: 4096, dataset: c4}
  hardware:
    network_topo: {topology: slingshot, bandwidth_gbps: [200, 2400]}
    xpu_spec: {type: GPU, model: nvidia_a100, total_count: 4, count_per_node: 4}
    driver_version: cuda_12.8
Model-executor:
  framework: {name: torchtitan, compiler_tool_selection: plain_pytorch}
  model_plan_parallelization: {dp_replicate: 1, dp_shard: 2, tp: 2, pp: 1, cp: 1, ep: 1, pp_mb: 1}
  communication_library: {name: NCCL, version: 2.27.5, env: {NCCL_IB_DISABLE: "1", NCCL_ALGO: null}}
  protocol_selection: [slingshot, nvlink]
metric_source: {traces: [json], metrics_specific_trace: []}
"""  # noqa: E501


def traces(**card: Any) -> TraceSet:
    t = TraceBuilder()
    t.comp("gemm", duration_ns=1_500)
    return TraceSet([t.build()], card=Card(**card))


def test_a_card_of_ccl_bench_is_read_and_kept_whole(tmp_path: Path) -> None:
    (tmp_path / "card.yaml").write_text(CARD)
    given = read_card_file(tmp_path / "card.yaml")
    write_bundle(traces(), tmp_path / "b.chakra", given)
    kept = plain_card(check_bundle(tmp_path / "b.chakra").card)
    given["Model-executor"]["communication_library"]["env"]["NCCL_ALGO"] = None
    for name, section in given.items():
        assert overlaid(kept[name], section) == kept[name] if isinstance(section, dict) else section


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "workload.data.seqlen=1",
            "workload.data.seqlen: a card has no such field; did you mean workload.data.seq_len?",
        ),
        ("workload.data.seq_len=long", "workload.data.seq_len: Expected `int | null`, got `str`"),
        (
            "workload.model.phase=fast",
            "workload.model.phase: Invalid enum value 'fast'; use inference, serving, training",
        ),
        ("Model-executor.model_plan_parallelization.tp=0", "tp: Expected `int` >= 1"),
        ("zzz=1", "zzz: a card has no such field; there are version"),
        ("description", "give NAME=VALUE"),
        ("=3", "give NAME=VALUE"),
    ],
)
def test_a_wrong_field_is_named_with_what_belongs_there(text: str, said: str) -> None:
    with pytest.raises(ConfigError) as error:
        fields_from([text])
    assert said in str(error.value)


@pytest.mark.parametrize(
    "text", ["- a\n- b\n", "a: [", "workload: 3\n", "\x00", "description: [1]"]
)
def test_a_file_that_is_no_card_is_told(tmp_path: Path, text: str) -> None:
    (tmp_path / "card.yaml").write_text(text)
    with pytest.raises(ConfigError, match=r"card\.yaml"):
        read_card_file(tmp_path / "card.yaml")
    with pytest.raises(ConfigError, match="cannot be read"):
        read_card_file(tmp_path / "none.yaml")


def test_a_field_wins_over_the_file_and_that_over_the_traces() -> None:
    known = traces(tool="by hand", measured={"loss": 2.5})
    given = overlaid({"description": "file", "contact": "c"}, fields_from(["description=field"]))
    found = workload_card(known, given)
    assert (found.description, found.contact) == ("field", "c")
    assert found.collection is not None
    assert found.collection.tool == "by hand"
    assert found.measured == {"loss": 2.5}


def test_a_generated_workload_knows_its_model_and_plan() -> None:
    from chakrakit.workloads.generate import generate
    from chakrakit.workloads.models import from_plain

    model = {
        "family": "decoder",
        "layers": 2,
        "hidden": 64,
        "heads": 4,
        "vocab": 128,
        "name": "tiny",
    }
    plan = {"dp": 2, "tp": 2, "data": "fsdp"}
    made = generate(
        from_plain({"model": model, "plan": plan, "step": {"global_batch": 4, "seq": 16}})
    )
    found = plain_card(workload_card(made, {}))
    assert found["workload"]["model"]["phase"] == "training"
    assert found["workload"]["model"]["model_arch"]["num_layers"] == 2
    assert found["workload"]["data"] == {
        "batch_size": 4,
        "batch_size_scope": "global",
        "seq_len": 16,
    }
    assert found["workload"]["hardware"]["xpu_spec"]["total_count"] == 4
    spread = found["Model-executor"]["model_plan_parallelization"]
    assert (spread["dp_replicate"], spread["dp_shard"], spread["tp"]) == (1, 2, 2)


def test_the_card_stays_with_the_traces_but_not_what_is_stale(tmp_path: Path) -> None:
    given = {"contributor": "me", "measured": {"loss": 1.0}, "collection": {"command": "train.sh"}}
    write_bundle(traces(tool="first"), tmp_path / "a.chakra", given)
    again = read(tmp_path / "a.chakra")
    again.card = again.card.replace(tool="second")
    found = workload_card(again, {})
    assert found.contributor == "me"
    assert found.measured == {"loss": 1.0}
    assert found.collection is not None
    assert (found.collection.tool, found.collection.command) == ("second", "train.sh")


@pytest.mark.parametrize("value", [None, 3, [1], {"name": 4}, {"layers": "many"}, {"experts": -1}])
def test_settings_that_are_anything_are_survived(value: Any) -> None:
    names = ("model", "plan", "step", "machine", "collector")
    found = traces(settings=dict.fromkeys(names, value))
    section = workload_card(found, {}).workload
    assert section is not None
    assert section.hardware == workload_card(traces(settings={}), {}).workload.hardware
    assert section.model is None or section.model.model_family is None  # nothing is made up


def test_the_schema_in_the_docs_is_this_one() -> None:
    from chakrakit.commands.schemas import schema_text

    file = DOCS / "schemas" / "workload-card.json"
    assert file.read_bytes() == schema_text("workload-card")
    assert json.loads(file.read_bytes())["title"]


def test_every_field_can_be_given_by_name() -> None:
    assert "Model-executor.model_plan_parallelization.dp_shard" in fields()
    sections = msgspec.json.schema(WorkloadCard)["$defs"]["WorkloadCard"]["properties"]
    assert {f.partition(".")[0] for f in fields()} == set(sections)
    assert card_from({}, "x") == WorkloadCard()
