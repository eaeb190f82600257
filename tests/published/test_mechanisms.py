"""What studies are made of: codecs, placements, rentals, regressions, programs of calls, machines."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace
from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow.parquet as pq
import pytest

from chakrakit.machines import load_machine
from chakrakit.published import TABLES, list_studies, seconds_of, unsure
from chakrakit.published.communication import gradient_codecs as codecs
from chakrakit.published.communication.regression import final_loss, rounded
from chakrakit.published.methodology.seven_plans import PLANS, RANKS
from chakrakit.published.planning.placements import DIMS, scattered, snake, tiles
from chakrakit.published.recorded import LINE, write_line
from chakrakit.published.serving import harvesting
from chakrakit.published.serving.balancing import Fewest
from chakrakit.published.serving.rental import best_rates, one_by_one, together
from chakrakit.published.serving.rental import two_stages_lose_nothing as lossless
from chakrakit.published.workflows.call_program import ProgramCall, ordered
from chakrakit.published.workflows.model_calls import ModelCall
from chakrakit.published.workflows.resident_models import ResidentPolicy


@pytest.mark.parametrize("scheme", ["flat", "nested"])
def test_a_codec_that_does_nothing_gains_nothing(scheme):
    site, size = codecs.site(100, 0), 16_000_000
    plain = min(
        seconds_of(codecs.message(size, s, 1, 1, 1), site, "measured", share_compute=True)
        for s in ("plain", "plain nested")
    )
    useless = codecs.message(size, scheme, 1, 1, 1e6)
    assert seconds_of(useless, site, "measured", share_compute=True) > 0.99 * plain


def test_schemes_code_all_that_crosses_the_wire():
    """Bytes of a rank's codecs: its input, what it adds up, its part of the result, and the result."""
    size, n, width = 32_000_000, codecs.RANKS, codecs.WIDTH
    expected = {"flat": size * (3 + 1 / n), "nested": size / width * (3 + width / n)}
    for scheme, moved in expected.items():
        trace = codecs.message(size, scheme, 1, 2, 1).trace(0)  # a nanosecond a byte
        names = trace.nodes.column("name").to_pylist()
        spent = sum(t for name, t in zip(names, trace.duration_ns, strict=True) if "code" in name)
        assert spent == pytest.approx(moved, rel=1e-3), scheme


def test_ways_through_a_grid_visit_every_device_once():
    for path in (tiles(4, 8, 2, 2), snake(4, 8), scattered(8, 1)):
        assert sorted(path) == list(range(32))
    assert all(abs(a % 4 - b % 4) + abs(a // 4 - b // 4) == 1 for a, b in pairwise(snake(4, 8)))


def test_two_models_that_want_the_same_gpu_are_better_off_together():
    fast, slow = best_rates({1: 10.0}, 1), best_rates({1: 9.0}, 1)
    tables = [[fast, slow], [best_rates({1: 10.0}, 1), best_rates({1: 1.0}, 1)]]
    have, prices, demands = np.array([1, 1]), np.array([1.0, 1.0]), np.array([10.0, 10.0])
    assert together(tables, demands, have, prices)[0] == 19.0
    assert one_by_one(tables, demands, have, prices, [0, 1])[0] == 11.0


def test_two_stages_lose_nothing():
    assert lossless(3) == 1.0


def test_one_gram_matrix_for_many_iterations_gives_the_same_loss():
    exact = final_loss(1, "fp32", 0, 128)
    assert final_loss(64, "fp32", 0, 128) == pytest.approx(exact, rel=1e-3)
    assert final_loss(64, "bf16", 0, 128) == pytest.approx(exact, rel=5e-3)
    assert exact < np.log(2)  # of no training at all


def test_values_are_rounded_to_the_nearest_of_sixteen_bits():
    """Over all lower halves of a few upper ones, by the distances to the two neighbours."""
    for upper in (0x3F80, 0x4049, 0xC2F7):
        bits = np.uint32(upper << 16) + np.arange(1 << 16, dtype=np.uint32)
        values = bits.view(np.float32)
        below = np.full(len(bits), upper << 16, np.uint32).view(np.float32)
        above = np.full(len(bits), (upper + 1) << 16, np.uint32).view(np.float32)
        nearer = np.abs(values - below) < np.abs(values - above)
        assert (rounded(values, "bf16") == np.where(nearer, below, above)).all()
        assert (rounded(values, "fp32") == values).all()


def test_calls_wait_for_what_their_order_asks():
    calls = [
        ProgramCall(1.0),
        ProgramCall(1.0, writes=True),
        ProgramCall(1.0),
        ProgramCall(1.0, reads=(2,), writes=True),
    ]
    assert ordered(calls, "sequential", 0) == [[], [0], [1], [2]]
    assert ordered(calls, "any", 0) == [[], [], [], [1]]
    assert ordered(calls, "gathered", 8) == [[], [0], [0], [1, 2]]


def test_a_machine_differs_a_little_by_seed_and_is_the_same_for_the_same_one():
    plain = load_machine("dgx-h100")
    some = [
        unsure(plain, seed).links.bandwidth[0] / plain.links.bandwidth[0] for seed in range(200)
    ]
    assert np.std(np.log(some)) == pytest.approx(0.05, rel=0.2)
    assert unsure(plain, 1).devices == unsure(plain, 1).devices


def test_every_plan_takes_all_ranks_and_says_so():
    for name, plan in PLANS.items():
        assert plan.get("tp", 1) * plan.get("pp", 1) * plan["dp"] == RANKS, name


class _Engine(NamedTuple):
    """What a router asks of an engine."""

    number: int
    waiting: int
    running: int
    tokens_held: int = 0
    tokens_promised: int = 0


def test_a_request_goes_where_the_fewest_are_and_waits_where_all_are_full():
    engines = [_Engine(0, 2, 1, 5, 90), _Engine(1, 0, 4, 90, 0), _Engine(2, 1, 1, 90, 6)]
    assert Fewest(by_tokens=False, hold=0).route(None, engines) == 2
    assert Fewest(by_tokens=True, hold=0).route(None, engines) == 1
    assert Fewest(by_tokens=False, hold=3).route(None, engines) == 2
    assert Fewest(by_tokens=False, hold=2).route(None, engines) is None
    alike = [_Engine(1, 1, 0), _Engine(0, 0, 1)]
    assert Fewest(by_tokens=False, hold=0).route(None, alike) == 0  # the first of those alike


def test_the_longest_path_goes_where_it_ends_first():
    """To the device that has its model loaded, and of two of those to the one with its prefix."""
    calls = [ModelCall(0, n, 1, 2, 2_000, 10, (), path) for n, path in enumerate((1, 9))]
    policy = ResidentPolicy("longest path", 0.0, [], 3)
    places = [
        SimpleNamespace(number=n, state={"prefixes": p}) for n, p in enumerate([set(), set(), {2}])
    ]
    policy.models = {0: 7, 1: 1, 2: 1}
    tasks = [SimpleNamespace(about=call) for call in calls]
    task, place = policy.pick(tasks, places, 0.0)
    assert (task.about.path, place.number) == (9, 2)
    took = [policy.seconds(calls[1], p) for p in places]
    assert took[0] > took[1] > took[2] > 0


def test_a_study_s_line_is_written_into_its_table(tmp_path):
    """And nothing else of the table changes."""
    source = TABLES / "A01.parquet"
    (tmp_path / source.name).write_bytes(source.read_bytes())
    (line,) = (line for line in list_studies() if line.id == "A01")
    write_line(msgspec.structs.replace(line, system="another"), tmp_path)
    table = pq.read_table(tmp_path / source.name)
    assert b'"another"' in table.schema.metadata[LINE]
    assert table.equals(pq.read_table(source))


def test_rollouts_leave_where_users_wait_and_stay_where_only_rollouts_do():
    policy = harvesting.Cooperative(0.5, 0.05)
    rollouts = [
        SimpleNamespace(number=n, priority=harvesting.ROLLOUT, generated=5) for n in range(3)
    ]
    user = SimpleNamespace(number=9, priority=harvesting.ROLLOUT + 1, generated=0)
    for waiting, moves in (([], []), (rollouts[:1], []), ([rollouts[0], user], [0, 1, 2])):
        engine = SimpleNamespace(number=harvesting.OWN, waiting_requests=waiting)
        gone = policy.migrate([*rollouts, user], engine, [])
        assert gone == [(n, n % harvesting.OWN) for n in moves]


def test_slices_are_as_large_as_their_names_say():
    assert {name: tuple(map(int, name.split()[1].split("×"))) for name in DIMS} == DIMS


def test_more_engines_start_while_those_for_rollouts_are_busy():
    """Two requests or fewer on each of the two engines are no reason, whether they wait or run."""
    policy = harvesting.ElasticPool(2.0)
    few, all_of_them = harvesting.OWN + harvesting.SERVING, harvesting.OWN + harvesting.SERVING + 2
    for waiting, running, on in (
        (2, 0, few),
        (0, 2, few),
        (1, 2, all_of_them),
        (3, 0, all_of_them),
    ):
        engines = [_Engine(n, waiting, running) for n in range(harvesting.OWN)]
        engines += [_Engine(n, 50, 50) for n in range(harvesting.OWN, few)]  # those of users
        assert policy.scale(engines, now_s=5.0) == list(range(on))
        assert policy.scale(engines, now_s=0.0) == list(range(few))
