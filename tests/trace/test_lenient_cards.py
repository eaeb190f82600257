"""Cards as people write them: null, text where numbers belong, fields of their own."""

from __future__ import annotations

import pytest

from chakrakit.errors import ConfigError
from chakrakit.trace.storage.cards import card_from, read_card_file

CARD = """\
version: 1
description: a run
trace_url: null
contributor: ""
workload:
  model: {phase: training, num_params: 8000000000, num_layers: 32, model_arch: {num_heads: 32}}
  data: {batch_size: 8, request_rate: inf, max-num-seqs: 256}
  hardware:
    network_topo: {topology: slingshot, bandwidth_gbps: ["200 per NIC", N/A]}
    xpu_spec: {type: TPU, total_count: 16, topology: 4x4}
Model-executor:
  framework: {name: vllm, version: 0.11, compiler_tool_selection: null, env: {A: 1}}
  protocol_selection: simple
metric_source: {traces: [nsys, null], metrics_specific_trace: [null]}
collection_notes: recorded twice
"""


def test_what_has_no_field_or_does_not_fit_is_kept_under_its_name(tmp_path):
    (tmp_path / "card.yaml").write_text(CARD)
    content = read_card_file(tmp_path / "card.yaml")
    card = card_from(content, "card")
    assert (
        card.workload.model.model_arch.num_layers,
        card.workload.model.model_arch.num_heads,
    ) == (32, 32)
    assert card.executor.framework.version == "0.11"
    assert card.executor.protocol_selection == ["simple"]
    assert card.metric_source.traces == ["nsys"]
    assert card.extra == {
        "workload.data.request_rate": "inf",
        "workload.data.max-num-seqs": 256,
        "workload.hardware.network_topo.bandwidth_gbps": ["200 per NIC", "N/A"],
        "workload.hardware.xpu_spec.topology": "4x4",
        "Model-executor.framework.env": {"A": 1},
        "collection_notes": "recorded twice",
    }


def test_a_misspelt_field_is_still_refused(tmp_path):
    (tmp_path / "card.yaml").write_text("workload: {data: {seqlen: 4096}}\n")
    with pytest.raises(ConfigError, match="did you mean"):
        read_card_file(tmp_path / "card.yaml")
