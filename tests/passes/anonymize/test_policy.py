"""Keys and policies of `anonymize`."""

from __future__ import annotations

import pytest

from chakrakit.errors import ConfigError
from chakrakit.passes.anonymize import Anonymize
from chakrakit.passes.anonymize_policy import ColumnPolicy
from chakrakit.passes.base import parse
from chakrakit.trace.model import by_name
from support.recorded import linked


def test_one_key_gives_one_result_and_no_key_another_each_time(tmp_path):
    traces = linked("cnn_ddp_2")
    names = [(traces | Anonymize(key=k)).body(0).names.to_pylist() for k in ("a", "a", "b", "", "")]
    assert names[0] == names[1]
    assert len({tuple(n) for n in names}) == 4


@pytest.mark.slow
def test_names_stay_apart_and_modules_nested():
    traces = linked("gpt_fsdp_tp_4")
    out = traces | Anonymize(key="k")
    a, b = traces.body(0), out.body(0)
    pairs = set(zip(a.names.to_pylist(), b.names.to_pylist(), strict=True))
    assert len(pairs) == len({x for x, _ in pairs}) == len({y for _, y in pairs})
    modules = dict(zip(a.column("module", ""), b.column("module", ""), strict=True))
    first, second = (modules[f"blocks.{i}"].split(".") for i in (0, 1))
    assert first[0] == second[0]
    assert first[1] != second[1]


def test_keep_and_drop_change_the_policy():
    out = (linked("cnn_ddp_2") | Anonymize(keep=("inputs_shapes",), drop=("num_ops",))).body(0)
    assert "inputs_shapes" in out.table.column_names
    assert "num_ops" not in out.table.column_names


def test_every_attribute_of_the_vocabulary_has_been_thought_of():
    """A new one is dropped until somebody decides; what a simulator reads must not be."""
    policy = ColumnPolicy.of("exact", (), ())
    assert {a for a in by_name() if policy.treatment(a) == "dropped"} == {
        "grid",
        "rf_id",
        "fw_parent",
        "op_schema",
        "comm_name",
        "kernel_backend",
        "kernel_file",
        "fused_operators",
        "tensor_range",
        "comm_group",
        "inputs",
        "outputs",
        "shards",
        "caller",
        "comm_state",
        "operator",
        "operator_call",
        "section",
    }


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("anonymize{drop=[comm_sise]}", "did you mean 'comm_size'"),
        ("anonymize{drop=[name]}", "cannot be dropped"),
        ("anonymize{drop=[stream], keep=[stream]}", "in keep and in drop"),
        ("anonymize{times=some}", "times"),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused(spec, message):
    with pytest.raises(ConfigError, match=message):
        parse(spec)


def test_the_spelling_in_the_card_has_no_key():
    assert str(Anonymize(key="hush", times="durations")) == "anonymize{times=durations}"
