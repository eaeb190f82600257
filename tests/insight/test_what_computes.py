"""What counts as computing on a host, and the kinds of waiting that are told apart."""

from __future__ import annotations

from pathlib import Path

import pytest

import chakrakit as ck
from chakrakit.insight import answers
from chakrakit.insight.breakdown import PARTS, breakdown
from chakrakit.insight.communication import CollectiveKind, CommunicationSummary
from chakrakit.insight.rank import Table
from chakrakit.trace.communication import Binding
from chakrakit.trace.model import NodeType
from chakrakit.trace.sets import Card
from support.recording import Recording


def recorded(*rows: tuple[str, int, int], **columns) -> ck.Run:
    """A rank of recorded rows (name, start, end in µs) on one host thread, unless columns say otherwise."""
    size = len(rows)
    table = {
        "name": [name for name, _, _ in rows],
        "type": [int(NodeType.COMP_NODE)] * size,
        "start_time_ns": [start * 1000 for _, start, _ in rows],
        "duration_ns": [(end - start) * 1000 for _, start, end in rows],
        "is_cpu_op": [True] * size,
        "tid": [1] * size,
        **columns,
    }
    return ck.Run([ck.Trace.from_columns(table)], {0: Binding(0)}, None, Card())


PRODUCT = (
    ("model", 0, 100),
    ("aten::linear", 5, 95),
    ("aten::t", 6, 10),
    ("aten::addmm", 20, 90),
    ("aten::view", 25, 30),
    ("aten::copy_", 30, 40),
)


def test_a_product_on_a_cpu_computes_while_nothing_that_it_calls_runs():
    rank = breakdown(recorded(*PRODUCT)).ranks[0].breakdown
    # linear 5–6, 10–20, 90–95; addmm 20–25, 40–90; copy_ 30–40: not the views, not the module around it
    assert rank.compute_ns == 81_000
    # the views, and the module before and after the product
    assert rank.idle == {"host": 4_000 + 5_000 + 5_000, "ended": 5_000}


def test_operators_of_a_cpu_recording_show_its_products():
    analysis = ck.analyze(recorded(*PRODUCT))
    spent = {s.name: s.time_ns for s in analysis.operators.operators}
    assert spent["aten::addmm"] == 55_000
    assert "aten::view" not in spent


def test_what_an_operator_computes_after_its_last_call_is_its_own_on_the_critical_path(tmp_path):
    """A thread that is never idle is the path: addmm 0–10 and 20–90, what it calls 10–20, gelu 95–125."""
    recording = Recording(device="cpu")
    recording.op("aten::addmm", 0, 90)
    recording.op("aten::resolve_conj", 10, 10, parent=2)
    recording.op("aten::gelu", 95, 30)
    for name, text in (("et", recording.observer_json()), ("kineto", recording.kineto_json())):
        (tmp_path / f"{name}.json").write_text(text)
    run = ck.link([tmp_path / "et.json", tmp_path / "kineto.json"])[0]
    path = ck.analyze(run).critical_path
    spent: dict[str, int] = {}
    for segment in path.segments:
        spent[segment.name] = spent.get(segment.name, 0) + segment.end_ns - segment.start_ns
    # 5 µs of the host pass before gelu
    assert spent == {"aten::addmm": 80_000, "aten::resolve_conj": 10_000, "aten::gelu": 35_000}
    assert path.attribution == {"compute": 110_000, "host": 15_000}


def test_the_critical_path_of_a_linked_cpu_recording_shows_products_and_is_computation(linked):
    analysis = ck.analyze(linked("gpt_pp_2"))
    path = {(kind, name): ns for kind, name, ns in analysis.critical_path.operators}
    assert path["compute", "aten::addmm"] > path["compute", "aten::add_"]
    assert analysis.bound == "computation"


def test_what_bounds_a_cpu_recording_is_what_its_table_says():
    """60 ms of loader and 40 of products: twice as fast, 30 and 20; nobody else is at work."""
    analysis = ck.analyze(
        recorded(
            ("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 0, 60),
            ("aten::mm", 60, 100),
        ),
        faster={"compute": 2},
    )
    assert analysis.bound == "data"
    assert analysis.bound_saves == pytest.approx({"data": 0.3, "computation": 0.2, "host": 0})
    assert analysis.what_if.gains[0].saved_ns == 20_000


def test_waiting_for_a_data_loader_is_waiting_for_data():
    run = recorded(
        ("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 0, 60),
        ("aten::stack", 10, 20),
        ("aten::mm", 60, 100),
    )
    parts = breakdown(run).ranks[0].breakdown.parts()
    assert (parts["data"], parts["compute"], parts["host"]) == (60_000, 40_000, 0)


def test_parts_sum_to_the_span_and_every_kind_of_waiting_has_a_colour(two_ranks):
    from chakrakit.views.colors import COLORS

    result = breakdown(two_ranks)
    for rank in result.ranks:
        assert sum(rank.breakdown.parts().values()) == result.span_ns
    shown = [COLORS[part] for part in PARTS]
    assert len(set(shown)) == len(PARTS)


def test_what_a_recording_holds_around_the_devices_work_is_not_idle():
    run = recorded(
        ("python", 0, 100), ("gemm", 50, 90), is_cpu_op=[True, False], tid=[1, 0], stream=[0, 7]
    )
    idle = breakdown(run).ranks[0].breakdown.idle
    assert idle == {"cut": 60_000}
    assert not [a for a in answers(ck.analyze(run)) if a.question == "Why is it idle?"]


def test_a_table_of_many_ranks_shows_the_one_that_differs():
    table = Table.of("t", ("rank", "ms"), [(rank, 5.0 + (rank == 700)) for rank in range(1000)])
    assert (700, 6.0) in table.first(10).rows
    assert "least like the others of 1,000" in table.first(10).title


def test_groups_of_one_role_are_one_row_that_names_the_slowest():
    def kind(group: str, ns: float) -> CollectiveKind:
        times = {
            "transfer_ns": ns,
            "fastest_ns": 1,
            "slowest_ns": 1,
            "wait_ns": 0.0,
            "skew_ns": 0.0,
        }
        rates = {"algorithm_gbps": 1.0, "bus_gbps": 1.0, "total_wait_ns": 0, "total_exposed_ns": 5}
        return CollectiveKind(
            type="ALL_REDUCE", group=group, members=8, size_bytes=64, count=2, **times, **rates
        )

    kinds = [kind(f"dp.{i}", 2000.0 if i == 77 else 1000.0) for i in range(100)]
    rows = CommunicationSummary(kinds, [], [], [], 0, []).table().rows
    assert [row[:4] for row in rows] == [("ALL_REDUCE", "dp (slowest: dp.77)", 100, 8)]


@pytest.mark.slow
@pytest.mark.parametrize("slow", [0, 5])
def test_a_slow_rank_is_a_culprit_in_a_run_of_one_step(slow):
    traces = ck.generate(model="gpt3-125m", dp=8, seq=128, global_batch=8).traces
    run = ck.simulate(traces, "dgx-h100", compute="roofline", stragglers=[f"{slow}=1.3"]).run()
    first = ck.analyze(run).culprits[0]
    assert (first.kind, first.rank, round(first.factor, 1)) == ("slow-rank", slow, 1.3)


def test_idleness_between_kernels_of_a_stream_that_nothing_explains_is_called_so(
    tmp_path: Path,
) -> None:
    """A recording of kernels alone: the one before was over for a millisecond."""
    recording = Recording()
    for start in (0, 12, 1_000):
        recording.kernel("k", start, 10)
    path = tmp_path / "kineto.json"
    path.write_text(recording.kineto_json())
    idle = ck.analyze(ck.link(path)[0]).ranks[0].breakdown.idle
    assert idle == {"dependency": 2_000, "unknown": 978_000}


def test_a_simulated_cpu_recording_computes_as_much_as_its_analysis_says(linked) -> None:
    """No device works there; the few rows that are no operators count in the analysis alone."""
    done = ck.simulate(linked("gpt_pp_2"), compute="measured", communication="measured")
    told = [rank.breakdown.compute_ns for rank in ck.analyze(done.run()).ranks]
    assert [r.compute_ns for r in done.summary.ranks] == pytest.approx(told, rel=0.1)
    assert all(r.idle_ns < 0.9 * r.finish_ns for r in done.summary.ranks)
