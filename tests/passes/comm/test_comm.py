"""Comm, all actions: what each states it preserves holds on random, generated and recorded sets."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import chakrakit
from chakrakit import EdgeKind, Edges
from chakrakit.errors import ChakraError, ConfigError, TraceError
from chakrakit.passes.base import parse
from chakrakit.passes.comm import Comm
from chakrakit.passes.comm.channels import channels_of
from support.comm_cases import CASES, bytes_of, case, compute_of, data_kinds, makespan, reached
from support.examples import examples
from support.random_workloads import random_case

KEEP_BYTES = [
    Comm("bucket", size="60 MB"),
    Comm("bucket", size="1 GB"),
    Comm("fuse", size="1 GB"),
    Comm("split", parts=3),
    Comm("split", size="40 MB"),
]
REORDER = [Comm("prefetch"), Comm("delay"), Comm("serialize"), Comm("offload", stream=77)]
COMPRESS = [
    Comm("compress", ratio=4, throughput="200 GB/s"),
    Comm("compress", ratio=2.5, throughput="1 TB/s", decode_throughput="90 GB/s", stream=90),
]
SMALL = [Comm("bucket", size=5000), Comm("fuse", size=20_000), Comm("split", size=1000)]
OTHERS = [Comm("split-all-reduce"), Comm("join-all-reduce")]


def _applied(traces, change):
    """The changed set, or None where the pass says that it would deadlock or does not apply."""
    try:
        out = traces | change
        for number in range(out.body_count):
            out.body_at(number)
    except (TraceError, ConfigError) as error:
        if "wait for itself" in str(error) or "runs on the host" in str(error):
            return None
        raise
    return out


def _assert_kept(traces, out, change):
    assert (out.ranks, out.groups, out.body_count) == (
        traces.ranks,
        traces.groups,
        traces.body_count,
    )
    assert out.bindings == traces.bindings
    known, found = chakrakit.validate(traces).counts, chakrakit.validate(out).counts
    assert found.keys() <= known.keys()
    channels_of(out)  # calls of all members match, or this is an error
    for number in range(traces.body_count):
        a, b = traces.body_at(number), out.body_at(number)
        assert compute_of(a) == compute_of(b)
        kinds = data_kinds() if change in REORDER else None
        assert reached(a, kinds) <= reached(b, kinds)


# --- generated and recorded sets ----------------------------------------------------------------


ALL = [*KEEP_BYTES, *REORDER, *COMPRESS, *OTHERS]
FEW = [("ddp", change) for change in ALL] + [("dp-tp-pp", c) for c in (KEEP_BYTES[1], REORDER[2])]


@pytest.mark.first(4)
@pytest.mark.parametrize(
    ("name", "change"),
    [
        pytest.param(n, c, id=f"{n} {c}", marks=[] if (n, c) in FEW else pytest.mark.slow)
        for n in CASES
        for c in ALL
    ],
)
def test_what_is_stated_holds_and_the_set_still_runs(name, change):
    traces, machine, compute = case(name)
    out = _applied(traces, change)
    if out is None:
        return
    _assert_kept(traces, out, change)
    assert makespan(out, machine, compute) > 0
    if change in KEEP_BYTES or change in REORDER:
        assert bytes_of(out) == bytes_of(traces)


def _issued(traces, rng):
    """The same with some of the compute that communication reads only saying when it is issued."""
    bodies = []
    for body in (traces.body_at(i) for i in range(traces.body_count)):
        e = body.edges
        may = (body.types[e.src] == 4) & (body.types[e.dst] >= 5) & (e.form == 0)
        turned = may & np.array([rng.random() < 0.6 for _ in range(len(e))], bool)
        kind = np.where(turned, np.int8(EdgeKind.CTRL), e.kind)
        bodies.append(body.with_edges(Edges.of(e.src, e.dst, kind, e.form, e.lag)))
    return chakrakit.TraceSet(bodies, traces.bindings, traces.groups)


# --- random sets --------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    "change", [*SMALL, *KEEP_BYTES[3:4], *REORDER, *COMPRESS, *OTHERS], ids=str
)
@examples(15)
@given(seed=st.integers(0, 5000))
def test_random_sets_keep_it_too(change, seed):
    traces, machine, _ = random_case(seed)
    if change in REORDER:
        traces = _issued(traces, random.Random(seed))
    if change.action == "join-all-reduce":
        traces = traces | Comm("split-all-reduce")
    try:
        makespan(traces, machine)
    except ChakraError:
        return  # a random set that never ran
    out = _applied(traces, change)
    if out is None:
        return
    _assert_kept(traces, out, change)
    makespan(out, machine)
    if change in SMALL or change in REORDER:
        assert bytes_of(out) == bytes_of(traces)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("comm{action=compress, ratio=4}", "needs throughput"),
        ("comm{action=bucket, size=1MB, ratio=2}", "bucket has no ratio"),
        ("comm{action=bucket, size=0}", "of 0 nothing would ever finish"),
        ("comm{action=split}", "size or parts"),
        ("comm{action=split, parts=0}", "1 or more"),
        ("comm{action=compress, ratio=0.5, throughput=1GB/s}", "1 or more"),
        ("comm{action=offload, stream=-1}", "streams are numbers"),
        (f"comm{{action=offload, stream={2**31}}}", "streams are numbers"),
        (f"comm{{action=prioritize, priority={2**31}}}", "a number of 32 bits"),
        (f"comm{{action=prioritize, priority={-(2**31) - 1}}}", "a number of 32 bits"),
        ("comm{action=prioritize, weight=65536}", "from 1 to 65,535"),
        ("comm{action=prioritize, weight=0}", "from 1 to 65,535"),
        ("comm{action=fuse, size=1MB, types=[all-reuce]}", "no 'all-reuce'"),
        (
            "comm{action=shrink}",
            "action is 'shrink'; there are algorithm, prioritize, split-all-reduce",
        ),
    ],
)
def test_options_that_make_no_sense_are_refused(spec, message):
    with pytest.raises(ConfigError, match=message):
        parse(spec)


def test_specs_read_back():
    for change in [*KEEP_BYTES, *REORDER, *COMPRESS, *OTHERS]:
        assert parse(str(change)) == change
