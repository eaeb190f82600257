"""A workload under ASTRA-sim's files: what the core gets of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from chakrakit import Binding, CollectiveType, Groups, TraceBuilder, TraceSet, write
from chakrakit.errors import ConfigError
from chakrakit.simulator.astra import make_config, simulate
from support.astra_cases import case_of, coll, figures, network, run, system

MB = 1 << 20


def test_injection_scales_the_endpoint_delay_of_the_file_only() -> None:
    ranks = [[coll(0, MB)] for _ in range(4)]
    scaled = run(case_of(ranks, network(("Ring", 4)), args=["--injection-scale=2.5"]))
    written = run(case_of(ranks, network(("Ring", 4)), system(endpoint_delay=25)))
    assert figures(scaled) == figures(written)
    absent = case_of(ranks, network(("Ring", 4)), system(endpoint_delay=None))
    assert figures(run(absent | {"args": ["--injection-scale=2.5"]})) == figures(run(absent))


def test_ranks_beyond_the_network_are_left_out_with_a_note(tmp_path: Path) -> None:
    body = TraceBuilder()
    body.comp("a", duration_ns=1_000)
    write(TraceSet([body.build()] * 3), tmp_path / "w.N.et")
    result = simulate(str(tmp_path / "w"), make_config(system(), network(("Ring", 2)), {}))
    assert result.cycles.tolist() == [1_000, 1_000]
    assert "the network has 2 ranks" in str(result.config.ignored[0])


def test_a_delay_scaled_beyond_the_clock_is_refused() -> None:
    slow = case_of([[coll(0, MB)]] * 4, network(("Ring", 4)), system(endpoint_delay=10**9))
    with pytest.raises(
        ConfigError, match=r"--injection-scale 1e\+08 makes `endpoint-delay` 100,000"
    ):
        run(slow | {"args": ["--injection-scale=100000000"]})


def test_the_groups_of_the_traces_count_unless_a_file_gives_some() -> None:
    """Pairs take less than all four."""
    t = TraceBuilder()
    t.collective("sum", CollectiveType.ALL_REDUCE, MB, pg_name="1")
    pairs = Groups({"1": (0, 1), "2": (2, 3)})
    bindings = {r: Binding(0, {"1": str(1 + r // 2)}) for r in range(4)}
    own = TraceSet([t.build()], bindings, pairs)
    net = network(("Switch", 4))
    plain = simulate(own, make_config(system(), net, {}))
    assert plain.groups == {1: [0, 1], 2: [2, 3]}
    given = simulate(own, make_config(system(), net, {}, {"1": [1, 0], "2": [2, 3]}))
    assert given.groups[1] == [1, 0]
