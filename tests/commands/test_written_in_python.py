"""Descriptions that Python writes are as good as files, and NumPy's numbers as good as Python's."""

from __future__ import annotations

import numpy as np
import pytest

import chakrakit as ck


def test_a_job_as_a_dictionary_runs_as_its_file_does(tmp_path):
    job = {"step_seconds": np.float64(10), "steps": np.int64(8640), "cluster": {"nodes": 16}}
    (tmp_path / "job.yaml").write_text("{step_seconds: 10, steps: 8640, cluster: {nodes: 16}}")
    assert ck.campaign(job, histories=2).days.mean == 1.0
    assert ck.campaign(job, histories=2) == ck.campaign(tmp_path / "job.yaml", histories=2)


def test_an_error_in_a_dictionary_names_the_field_and_the_nearest_one():
    with pytest.raises(ck.ConfigError, match="no field 'stepz'; did you mean 'steps'"):
        ck.campaign({"step_seconds": 10, "stepz": 3, "cluster": {"nodes": 16}})


def test_a_machine_as_a_dictionary():
    level = {"topology": "switch", "size": np.int64(2), "bandwidth": np.float64(1e9)}
    made = ck.machine({"name": "two", "device": {"memory": np.int64(10**9)}, "network": [level]})
    assert (made.name, made.size, made.devices[0].memory) == ("two", 2, 1e9)
    with pytest.raises(ck.ConfigError, match="either `network`"):
        ck.machine({"device": {"name": "gpu"}})


def test_a_model_is_as_good_as_its_name():
    named = ck.generate(model="gpt3-125m", dp=2, seq=128, global_batch=2)
    described = ck.generate(
        model=ck.models("gpt3-125m"), dp=np.int64(2), seq=np.int32(128), global_batch=2
    )
    assert described.figures == named.figures


def test_numpy_numbers_in_traces_and_simulations():
    t = ck.TraceBuilder()
    gemm = t.comp(
        "gemm", duration_ns=np.int64(1_500), num_ops=np.float64(5), tensor_size=np.int32(7)
    )
    t.collective("sum", ck.CollectiveType.ALL_REDUCE, np.int64(64), deps=[np.int64(gemm)])
    traces = ck.TraceSet.of(t, ranks=np.int64(2))
    assert traces.trace(1)[0].duration_ns == 1_500
    level = {"topology": "switch", "size": 2, "bandwidth": "1 GB/s"}
    done = ck.simulate(
        traces, ck.machine({"network": [level]}), compute="measured", stragglers={np.int64(1): 2}
    )
    assert done.summary.makespan_s == pytest.approx(done.summary.makespan_ns / 1e9)
    assert done.summary.makespan_s > 3e-6


STAR = {
    "device": {"name": "host"},
    "graph": {
        "devices": ["client", "server"],
        "links": [
            {"ends": ["client", "hub"], "bandwidth": "1 GB/s"},
            {"ends": ["hub", "server"], "bandwidth": "1 GB/s"},
        ],
    },
}


def asked_and_answered() -> ck.TraceSet:
    client, server = ck.TraceBuilder(), ck.TraceBuilder()
    sent = client.send("ask", "client", "server", 1000)
    client.recv("answer", "server", "client", 1000, deps=[sent])
    asked = server.recv("ask", "client", "server", 1000)
    work = server.comp("work", duration_ns=10_000, deps=[asked])
    server.send("answer", "server", "client", 1000, deps=[work])
    return ck.TraceSet.of({"client": client, "server": server})


def test_messages_go_between_ranks_by_name():
    traces, machine = asked_and_answered(), ck.machine(STAR)
    assert machine.device_names == ("client", "server")
    assert traces.ranks == (0, 1)
    done = ck.simulate(traces, machine, compute="measured")
    assert done.summary.makespan_ns == pytest.approx(1_000 + 10_000 + 1_000)


def test_names_in_the_order_of_the_machine():
    t = ck.TraceBuilder()
    t.comp("alone", duration_ns=5)
    assert ck.TraceSet.of({"server": t}, names=("client", "server")).ranks == (1,)


def test_a_message_to_nobody_is_refused():
    t = ck.TraceBuilder()
    t.send("ask", 0, "servr", 8)
    with pytest.raises(ck.TraceError, match="'servr', which is not a rank; did you mean 'server'"):
        ck.TraceSet.of({"client": t, "server": ck.TraceBuilder()})
    with pytest.raises(ck.TraceError, match="name ranks with"):
        t.build()


def test_devices_and_links_of_a_graph_fail_by_name():
    def makespan(*faults: str) -> float:
        done = ck.simulate(
            asked_and_answered(), ck.machine(STAR), compute="measured", faults=faults
        )
        return done.summary.makespan_ns

    assert makespan("device:server@0=0.5") == pytest.approx(1_000 + 20_000 + 1_000)
    assert makespan("device:server@0=0.5") == makespan("device:1@0=0.5")
    assert makespan("link:client-hub@0=0.5") == pytest.approx(2_000 + 10_000 + 2_000)
    with pytest.raises(
        ck.ConfigError, match="'sever' is neither a rank nor a device; did you mean 'server'"
    ):
        makespan("device:sever@0=0.5")


def test_ranks_of_one_job_can_run_what_another_set_has():
    def made(seq: int) -> ck.TraceSet:
        return ck.generate(model="gpt3-125m", dp=4, layers=2, seq=seq, global_batch=4).traces

    short, long = made(256), made(512)
    mixed = short.mixed({2: long})
    assert len(mixed.trace(0)) == len(short.trace(0))
    assert mixed.trace(2).column("num_ops", 0).sum() == long.trace(2).column("num_ops", 0).sum()
    seconds = [
        ck.simulate(t, "dgx-h100", compute="roofline").summary.makespan_s
        for t in (short, mixed, long)
    ]
    assert seconds[0] < seconds[1] <= seconds[2] * 1.001


def test_sets_that_do_not_meet_are_not_mixed():
    fields = {"model": "gpt3-125m", "seq": 128, "global_batch": 4}
    shallow = ck.generate(dp=4, layers=2, **fields).traces
    with pytest.raises(ck.TraceError, match=r"never arrives|do not agree"):
        shallow.mixed({1: ck.generate(dp=4, layers=4, **fields).traces})
    with pytest.raises(ck.TraceError, match="rank 9 is not in both sets"):
        shallow.mixed({9: shallow})
