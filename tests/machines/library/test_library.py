"""A communication library's costs and choices against closed forms and its own tuner's known decisions."""

from dataclasses import replace

import numpy as np
import pytest

from chakrakit.errors import ConfigError
from chakrakit.machines.fabric import span_of
from chakrakit.machines.library import (
    Measurement,
    Routing,
    Span,
    choose,
    cost,
    engine_cost,
    engine_kernel,
    fit_library,
    latency_seconds,
    predict,
    throughput_seconds,
)
from chakrakit.machines.library.expert import reached, token_bytes
from chakrakit.machines.load import load_machine

MIB = 1 << 20


def spanned(name, n):
    machine = load_machine(name)
    return machine.library, span_of(machine, np.arange(n))


@pytest.mark.parametrize(
    ("machine", "members", "size", "algorithm", "protocol"),
    [
        ("dgx-h200", 8, 4096, "ring", "LL"),
        ("dgx-h200", 8, 8 * MIB, "ring", "LL128"),
        ("dgx-h200", 8, 512 * MIB, "in-switch", "Simple"),
        ("dgx-h200", 4, 512 * MIB, "ring", "Simple"),
        ("dgx-a100", 8, 512 * MIB, "ring", "Simple"),
        ("dgx-a100", 2, MIB // 2, "ring", "LL"),
        ("dgx-a100", 2, MIB, "ring", "Simple"),
        ("l40s-pcie", 8, 8 * MIB, "ring", "Simple"),
        ("dgx-h100:4", 32, 4096, "tree", "LL"),
        ("dgx-h100:4", 32, 512 * MIB, "in-switch-tree", "Simple"),
    ],
)
def test_the_library_chooses_as_its_tuner_does(machine, members, size, algorithm, protocol):
    library, span = spanned(machine, members)
    assert choose(library, "all-reduce", size, span) == (algorithm, protocol)


def test_a_simple_ring_is_launch_hops_bytes_and_the_own_piece():
    library, span = spanned("dgx-h200", 4)
    p, size = library.simple, 512 * MIB
    piece = size / 4 / (p.share * 450e9)
    transfer = 3 * piece * (1 + p.fill * p.in_flight / size)
    expected = (library.launch_us + p.start_us + 3 * p.hop_us) * 1e-6 + p.copy * piece + transfer
    found = cost(library, "all-gather", "ring", "Simple", size, span)
    assert found.seconds == pytest.approx(expected, rel=1e-12)


def test_in_switch_reduction_makes_eight_faster_than_four():
    times = []
    for n in (4, 8):
        library, span = spanned("dgx-h200", n)
        times.append(predict(library, Measurement("all-reduce", n, 512 * MIB, 1.0), span))
    assert times[1] < times[0]


def test_links_twice_as_fast_halve_what_flows_and_nothing_else():
    library, span = spanned("dgx-h200", 4)
    slow = cost(library, "all-gather", "ring", "Simple", 512 * MIB, span)
    fast = cost(
        library, "all-gather", "ring", "Simple", 512 * MIB, replace(span, link=2 * span.link)
    )
    assert fast.transfer == pytest.approx(slow.transfer / 2, rel=1e-12)
    assert fast.latency == slow.latency


def test_between_nodes_the_ports_of_all_devices_carry_the_ring():
    library, span = spanned("dgx-a100:4", 32)
    assert (span.nodes, span.local, span.leaving) == (4, 8, 200e9)
    found = cost(library, "all-gather", "ring", "Simple", 4096 * MIB, span)
    assert found.transfer == pytest.approx(31 / 32 * 4096 * MIB / (0.92 * 200e9), rel=0.01)


def test_engines_read_all_of_their_peers_in_one_shot_and_a_piece_in_two():
    library, span = spanned("dgx-h100", 8)
    engine = library.engine
    assert engine_kernel(engine, 128 << 10, span) == "one-shot"
    assert engine_kernel(engine, 1 * MIB, span) == "two-shot"
    one, two = (engine_cost(engine, s, span).transfer for s in (128 << 10, MIB))
    assert one == pytest.approx(7 * (128 << 10) / (engine.share * 450e9))
    assert two == pytest.approx(2 * 7 / 8 * MIB / (engine.share * 450e9))
    assert engine_cost(engine, 4096, span, eager=True).seconds == pytest.approx(20.5e-6)


def test_tokens_reach_the_nodes_that_have_their_experts():
    routing = Routing(4096, 7168, 8, 256)
    assert reached(1, routing) == 1
    assert reached(8, routing) == pytest.approx(
        8 * (1 - np.prod((224 - np.arange(8)) / (256 - np.arange(8))))
    )
    assert token_bytes("dispatch", routing) == 7168 + 7168 / 128 * 4 + 16
    assert token_bytes("combine", routing) == 2 * 7168


def test_expert_exchange_grows_with_tokens_nodes_and_fewer_multiprocessors():
    library, span = spanned("dgx-h100:4", 32)
    small, large = (Routing(t, 7168, 8, 256) for t in (128, 4096))
    for what in ("dispatch", "combine"):
        constants = getattr(library, what)
        took = [throughput_seconds(constants, what, r, span, 24) for r in (small, large)]
        assert took[0] < took[1]
        assert throughput_seconds(constants, what, large, span, 4) > took[1]
        assert latency_seconds(constants, what, small, span) < latency_seconds(
            constants, what, large, span
        )
    with pytest.raises(ConfigError, match="16 experts on 32 members"):
        Routing(1, 1, 1, 16).check(32)


def test_a_fit_finds_the_constants_that_made_the_measurements():
    library, _ = spanned("dgx-h200", 8)

    def placed(n):
        return Span(n, 1, n, 450e9, 0.0, True)

    rows = [
        Measurement(c, n, 1 << k, 1.0)
        for c in ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")
        for n in (2, 8)
        for k in range(10, 30)
    ]
    rows = [r._replace(seconds=predict(library, r, placed(r.members))) for r in rows]
    start = load_machine("dgx-h100").library
    found = fit_library(start, rows, placed)
    misses = [abs(predict(found, r, placed(r.members)) / r.seconds - 1) for r in rows]
    assert np.median(misses) < 0.01


def test_too_few_measurements_are_an_error():
    library, span = spanned("dgx-h200", 8)
    rows = [Measurement("all-reduce", 8, 1 << k, 1e-5) for k in range(10)]
    with pytest.raises(ConfigError, match="10 measured collectives are too few"):
        fit_library(library, rows, lambda n: span)
