"""Anonymize: no name is left anywhere in the bytes; graph, communication and simulated time are equal."""

from __future__ import annotations

import string
from functools import cache

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import chakrakit
from chakrakit.passes.anonymize import Anonymize
from chakrakit.passes.anonymize_policy import _WORDS
from chakrakit.passes.base import parse
from chakrakit.simulator.engine import native
from chakrakit.simulator.results import simulate
from chakrakit.trace.memory import model_state
from chakrakit.trace.model import CollectiveType, by_name, columns
from chakrakit.workloads.description import Plan, Step, Workload
from chakrakit.workloads.generate import generate
from chakrakit.workloads.models import model_named
from support.examples import examples
from support.paths import CORPUS, DATA
from support.recorded import linked

MACHINES = ("dgx-h100", "dgx-a100", "ethernet-100g")


@cache
def _generated(**plan):
    model = msgspec.structs.replace(model_named("llama3.1-8b"), layers=4)
    return generate(Workload(model=model, plan=Plan(**plan), step=Step(seq=256, global_batch=16)))


# --- nothing is left ----------------------------------------------------------------------------


def _texts_of(trace):
    """Every text of a body, and the pieces of it that are names of something."""
    for column in trace.nodes.column_names:
        values = trace.nodes.column(column)
        if pa.types.is_dictionary(values.type) or pa.types.is_string(values.type):
            texts = [v for v in values.unique().to_pylist() if v]
            yield from texts[:: 1 + len(texts) // 500]
        elif values.type == pa.list_(pa.string()):
            yield from (v for texts in values.to_pylist() for v in texts or ())
    for value in trace.metadata.attributes.values():
        yield str(value)


def _strings_in(plain):
    if isinstance(plain, dict):
        for value in plain.values():
            yield from _strings_in(value)
    elif isinstance(plain, (list, tuple)):
        for value in plain:
            yield from _strings_in(value)
    elif isinstance(plain, str):
        yield plain


def _secrets(traces):
    """All texts over three letters that are not words of the vocabulary or plain numbers."""
    found = set(traces.groups)
    for binding in traces.bindings.values():
        found |= {*binding.groups, *binding.groups.values()}
    for number in range(traces.body_count):
        found |= set(_texts_of(traces.body_at(number)))
    for key in ("name", "source", "settings", "measured", "extra"):
        found |= set(_strings_in(getattr(traces.card, key)))
    names = {
        n for i in range(traces.body_count) for n in traces.body_at(i).names.unique().to_pylist()
    }
    keys = {"name", "kind", "model", "settings", "trace", "passes", *by_name()}
    # The header says how many bytes the model's state has, by kind: figures, and words of the vocabulary.
    state = [model_state(traces.body_at(i)) for i in range(traces.body_count)]
    keys |= {part.kind for parts in state for part in parts}
    words = {w for w in found - names if any(is_word(w) for is_word in _WORDS.values())}
    return {
        t
        for t in found - words
        if not any(t in key for key in keys)  # "fused" stands in the name of a column
        if not t.startswith('[{"kind":')
        if len(t) > 3 and not set(t) <= set(string.digits + "[], .-")
    }


def _bytes_of(folder):
    """The bytes of every file, and what is inside the compressed ones; the files' own names too."""
    for file in sorted(p for p in folder.rglob("*") if p.is_file()):
        yield str(file.relative_to(folder)).encode()
        yield file.read_bytes()
        if file.suffix == ".parquet":
            table = pq.read_table(file)
            yield repr(table.to_pydict()).encode()
            yield repr(table.schema.metadata).encode()


def _leaks(traces, folder):
    text = b"\0".join(_bytes_of(folder))
    return sorted(s for s in _secrets(traces) if s.encode() in _without_columns(text, s))


def _without_columns(text, secret):
    """The text without names of columns that hold a secret by chance: `fused_operators` is not "fused"."""
    for column in by_name():
        if secret in column:
            text = text.replace(column.encode(), b"")
    return text


CASES = {
    "a data-parallel CPU run": lambda: linked("cnn_ddp_2"),
    "sharded, with modules": lambda: linked("gpt_fsdp_tp_4"),
    "a GPU run": lambda: linked("mlp_ddp_nccl_1"),
    "a pipeline": lambda: linked("gpt_pp_2"),
    "folded and generated": lambda: _generated(dp=4, tp=2, pp=2),
    "another tool's": lambda: chakrakit.read(DATA / "et" / "stage.0.et"),
    "the reference converter's": lambda: chakrakit.read(DATA / "et" / "chakra.0.et.gz"),
}


@pytest.mark.first(1)
@pytest.mark.parametrize(
    ("case", "form"),
    [
        *(
            pytest.param(c, "out", marks=[pytest.mark.slow] * (c == "sharded, with modules"))
            for c in CASES
        ),
        ("folded and generated", "out.N.parquet"),
    ],
)
def test_no_original_text_is_anywhere_in_the_bytes(case, form, tmp_path):
    traces = CASES[case]()
    assert len(_secrets(traces)) > 10, "a test that looks for nothing finds nothing"
    (tmp_path / "d").mkdir()
    chakrakit.write(traces | Anonymize(key="k"), tmp_path / "d" / form)
    assert _leaks(traces, tmp_path / "d") == []


def test_the_search_finds_what_is_there(tmp_path):
    traces = linked("cnn_ddp_2")
    chakrakit.write(traces | Anonymize(keep=("op_schema",)), tmp_path / "out")
    assert any("aten::" in leak for leak in _leaks(traces, tmp_path / "out"))


def test_a_common_word_that_is_a_name_here_goes_too(tmp_path):
    traces = _generated(dp=4)
    assert "optimizer" in traces.body(0).names.to_pylist()
    out = traces | Anonymize(key="k")
    assert "optimizer" not in out.body(0).column("phase", "").tolist()
    assert "backward" in out.body(0).column("phase", "").tolist()


def test_card_groups_header_and_earlier_passes_say_nothing():
    traces = _generated(dp=4, tp=2) | parse("compact{keep-annotations=false}")
    out = traces | parse("anonymize{key=secret}")
    assert out.card.passes == ["compact", "anonymize"]
    assert (out.card.name, out.card.source, out.card.settings) == ("trace", [], {})
    assert out.body(0).metadata.version == ""
    assert all(g.isdecimal() for g in out.groups)
    assert all(r.isdecimal() for b in out.bindings.values() for r in b.groups)


def test_kinds_of_dependencies_that_are_not_there_do_not_come_along(tmp_path):
    """Text in `edge_kinds`, too long for the row, or of the right length and of no known kind."""
    t = chakrakit.TraceBuilder()
    first = t.comp("a", duration_ns=1)
    t.comp("b", duration_ns=1, deps=[first])
    hidden = pa.array([b"falcon", b"\xff"], pa.binary())
    trace = t.build().with_columns({"edge_kinds": hidden, "edge_lags_ns": [[1, 2], [7]]})
    made = (chakrakit.TraceSet([trace]) | Anonymize()).body(0)
    assert not made.has("edge_kinds").any()
    assert made.has("edge_lags_ns").tolist() == [False, True]


def test_raw_bytes_and_unknown_attributes_are_gone(tmp_path):
    trace = chakrakit.Trace.from_columns(
        {"name": ["n"], "type": [4], "my_project": ["falcon"], "inputs_values": ["[hidden]"]}
    )
    out = chakrakit.TraceSet([trace]) | Anonymize()
    assert set(out.body(0).nodes.column_names) <= {
        "id",
        "name",
        "type",
        "start_time_micros",
        "duration_micros",
        "ctrl_deps",
        "data_deps",
    }


# --- what stays ---------------------------------------------------------------------------------

KEPT = (
    "type",
    "is_cpu_op",
    "comm_type",
    "comm_size",
    "comm_src",
    "comm_dst",
    "comm_tag",
    "comm_seq",
    "stream",
    "tid",
    "num_ops",
    "tensor_size",
    "duration_micros",
    "duration_ns",
    "own_ns",
    "dtype",
    "comm_dtype",
)


def _same_edges(a, b):
    return all(
        np.array_equal(getattr(a, f), getattr(b, f))
        for f in ("src", "dst", "kind", "form", "lag", "ctrl")
    )


def _assert_same_shape(before, after):
    assert after.ranks == before.ranks
    assert sorted(after.groups.values()) == sorted(before.groups.values())
    for rank in before.ranks:
        a, b = before.trace(rank), after.trace(rank)
        assert len(a) == len(b)
        assert _same_edges(a.edges, b.edges)
        for column in KEPT:
            if column in a.table.column_names:
                assert a.table.column(column).to_pylist() == b.table.column(column).to_pylist()
    instances = [t.collectives.instances for t in (before, after)]
    for column in ("seq", "comm_type", "comm_size", "ranks"):
        assert sorted(instances[0][column].to_pylist()) == sorted(instances[1][column].to_pylist())
    _same_groups(before, after)


def _same_groups(before, after):
    """The same ranks meet: each collective's group has the same members under another name."""
    for rank in before.ranks:
        a, b = before.trace(rank), after.trace(rank)
        if "pg_name" in a.table.column_names:
            for x, y in zip(*(t.column("pg_name", "") for t in (a, b)), strict=True):
                assert before.groups.get(x) == after.groups.get(y)


@pytest.mark.first(1)
@pytest.mark.parametrize(
    "case",
    [pytest.param(c, marks=[pytest.mark.slow] * (c == "sharded, with modules")) for c in CASES],
)
def test_graph_communication_and_validity_stay(case):
    traces = CASES[case]()
    out = traces | Anonymize(key="k")
    assert type(out) is type(traces)
    _assert_same_shape(traces, out)
    before, after = chakrakit.validate(traces), chakrakit.validate(out)
    assert after.counts.keys() <= before.counts.keys()


SIMULATED = {
    "cnn_ddp_2": (lambda: linked("cnn_ddp_2"), 2, "measured"),
    "gpt_fsdp_tp_4": (lambda: linked("gpt_fsdp_tp_4"), 4, "measured"),
    "gpt_pp_2": (lambda: linked("gpt_pp_2"), 2, "measured"),
    "mlp_ddp_nccl_1": (lambda: linked("mlp_ddp_nccl_1"), 1, "measured"),
    "a GPU's roofline": (lambda: linked("mlp_ddp_nccl_1"), 1, "roofline"),
    "generated": (lambda: _generated(dp=4, tp=2, pp=2), 16, "roofline"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SIMULATED)
def test_simulated_time_is_equal_on_three_machines(name):
    make, ranks, compute = SIMULATED[name]
    traces = make()
    out = traces | Anonymize()
    for machine in MACHINES:
        times = [
            simulate(t, f"{machine}:{ranks}", compute=compute).makespan_ns for t in (traces, out)
        ]
        assert times[0] == times[1] > 0


def test_without_starts_the_order_of_issue_and_the_simulated_time_stay():
    """Streams without edges run in the order of recorded starts, which is not that of ids here."""
    t = chakrakit.TraceBuilder()
    late = t.comp("late", duration_ns=7_000, start_ns=20_000, stream=1)
    t.comp("early", duration_ns=3_000, start_ns=10_000, stream=1)
    t.comp("after", duration_ns=1_000, start_ns=30_000, stream=2, deps=[late])
    traces = chakrakit.TraceSet([t.build()])
    out = traces | Anonymize(times="durations")
    assert not out.body(0).is_timed
    times = [simulate(s, "dgx-h100:1").makespan_ns for s in (traces, out)]
    assert times[0] == times[1] == 11_000


def test_a_recording_loses_its_date_and_not_its_order():
    t = chakrakit.TraceBuilder()
    t.comp("a", start_ns=1_700_000_000_000_000_500, duration_ns=10)
    t.comp("b", start_ns=1_700_000_000_000_000_900, duration_ns=10)
    t.comp("unstarted", duration_ns=10)
    trace = (chakrakit.TraceSet([t.build()]) | Anonymize()).body(0)
    assert trace.start_ns.tolist() == [1_500, 1_900, 0]


def test_times_none_leaves_neither_durations_nor_lags():
    out = (linked("cnn_ddp_2") | Anonymize(times="none")).body(0)
    assert not out.duration_ns.any()
    assert not out.edges.lag.any()
    assert "own_ns" not in out.table.column_names


def test_groups_that_are_numbers_stay_defined_or_not():
    t = chakrakit.TraceBuilder()
    t.collective("c", CollectiveType.ALL_REDUCE, 10, pg_name="7")
    t.collective("d", CollectiveType.ALL_REDUCE, 10, pg_name="default_pg")
    names = (chakrakit.TraceSet([t.build()]) | Anonymize()).body(0).column("pg_name").tolist()
    assert names[0] == "7"
    assert names[1].isdecimal()
    assert int(names[1]) < 2**31


CORPUS = sorted((CORPUS).glob("random.*.et"))


@pytest.mark.parametrize("path", CORPUS[:6], ids=lambda p: p.name)
def test_what_no_column_could_hold_does_not_come_along(path, tmp_path):
    """Random messages: unknown fields, odd kinds, doc strings, kept as bytes until now."""
    traces = chakrakit.read(path)
    out = traces | Anonymize()
    assert not {c for c in out.body_at(0).table.column_names if c.startswith("_")} - {"_layout"}
    chakrakit.write(out, tmp_path / "out")
    known = {*by_name(), *chakrakit.read(tmp_path / "out").body_at(0).table.column_names}
    assert known <= {*by_name(), *columns.FIELD_TYPES, "_layout"}


# --- random traces ------------------------------------------------------------------------------

_NAMES = st.text(string.ascii_letters + " :.#<>", min_size=4, max_size=12)


@st.composite
def _random_traces(draw):
    rng = draw(st.randoms(use_true_random=False))
    words = draw(st.lists(_NAMES, min_size=2, max_size=6, unique=True))
    names = [f"~{word}" for word in words]  # no word that files have anyway, such as None
    t = chakrakit.TraceBuilder()
    for i in range(draw(st.integers(1, 12))):
        deps = rng.sample(range(i), min(i, 2))
        extra = {"stream": rng.choice([1, 2])} if rng.random() < 0.5 else {}
        extra |= {"module": rng.choice(names)} if rng.random() < 0.5 else {}
        extra |= {rng.choice(names): rng.choice(names)} if rng.random() < 0.3 else {}
        if rng.random() < 0.6:
            t.comp(rng.choice(names), duration_ns=rng.choice([1, 10, 1500]), deps=deps, **extra)
        else:
            kind = rng.choice([CollectiveType.ALL_REDUCE, CollectiveType.ALL_GATHER])
            t.collective(
                rng.choice(names),
                kind,
                rng.choice([10, 4000]),
                deps=deps,
                pg_name=names[0],
                **extra,
            )
    groups = chakrakit.Groups({names[0]: [0, 1]})
    bindings = {r: chakrakit.Binding(0) for r in range(2)}
    card = chakrakit.Card(name=names[1], source=names, settings={"who": names[0]})
    return chakrakit.TraceSet([t.build()], bindings, groups, card)


@pytest.mark.slow
@examples(10)
@given(traces=_random_traces())
def test_random_traces_keep_their_shape_and_lose_their_names(traces, tmp_path_factory):
    out = traces | Anonymize()
    _assert_same_shape(traces, out)
    machine = chakrakit.load_machine("dgx-h100:2")
    times = [native.run(t, machine).makespan_ps for t in (traces, out)]
    assert times[0] == times[1]
    folder = tmp_path_factory.mktemp("out")
    chakrakit.write(out, folder / "set")
    assert _leaks(traces, folder) == []


def test_simulated_runs_keep_their_times_and_lose_their_counters(tmp_path):
    run = simulate(_generated(dp=4), "dgx-h100:4", compute="roofline").run()
    out = run | Anonymize()
    chakrakit.write(out, tmp_path / "out")
    again = chakrakit.read(tmp_path / "out")
    assert again.makespan_ns == run.makespan_ns
    assert not again.counters


def test_tensors_and_windows_get_other_names():
    trace = chakrakit.Trace.from_columns(
        {"name": ["load"], "type": [2], "tensor": ["layers.0.weight"], "window": ["our window"]}
    )
    (node,) = (chakrakit.TraceSet([trace]) | Anonymize(key="k")).trace(0).nodes.to_pylist()
    assert node["tensor"] not in (None, "layers.0.weight")
    assert node["window"] not in (None, "our window")
