"""Pools against queueing theory, and their disciplines, residents and policies by hand."""

from __future__ import annotations

import math

import pytest

from chakrakit.simulator import live


def line(discipline: str, **options: dict[str, float]) -> list[str]:
    """Who ends when four come while the only place is busy."""
    order: list[str] = []

    def comes(me, pool, ns, wishes):
        yield live.use(pool, ns, **wishes)
        order.append(me.name)

    world = live.World()
    pool = world.pool("pool", 1, discipline=discipline)  # type: ignore[arg-type]
    world.actor(comes, pool, 100, {}, name="first")
    for at, (name, wishes) in enumerate(options.items(), 1):
        world.actor(comes, pool, 10, wishes, name=name, at_ns=at)
    world.run()
    return order


def test_lines_are_served_as_they_came_by_priority_or_by_deadline() -> None:
    assert line("fifo", a={}, b={}, c={}) == ["first", "a", "b", "c"]
    assert line("priority", a={"priority": 1}, b={"priority": 9}, c={"priority": 1}) == [
        "first", "b", "a", "c",
    ]  # fmt: skip
    assert line("deadline", a={"deadline": 9e9}, b={"deadline": 500}, c={}) == [
        "first", "b", "a", "c",
    ]  # fmt: skip


def test_what_is_resident_need_not_be_changed() -> None:
    def loads(me, pool):
        for item in "aabab":
            yield live.use(pool, 10, item=item, change=100)
        return me.now

    for holds, changes in ((1, 4), (2, 2)):
        world = live.World()
        pool = world.pool("pool", 1, holds=holds)
        world.actor(loads, pool, name="loads")
        result = world.run()
        assert result.summary.pools[0].changes == changes
        assert result.returned["loads"] == 50 + 100 * changes


def test_a_policy_picks_task_and_place_and_times_may_depend_on_the_place() -> None:
    class LastToHighest:
        def pick(self, tasks, places, now_ns):
            return tasks[-1], places[-1]

    done: list[tuple[str, int, float]] = []

    def comes(me, pool):
        place = yield live.use(pool, lambda place: 10 * (place.number + 1), about=me.name)
        done.append((me.name, place, me.now))

    world = live.World()
    pool = world.pool("pool", 2, policy=LastToHighest())
    for name in "abc":
        world.actor(comes, pool, name=name)
    world.run()
    assert done == [("b", 0, 10.0), ("c", 1, 20.0), ("a", 0, 20.0)] or done == [
        ("b", 0, 10.0), ("a", 0, 20.0), ("c", 1, 20.0),
    ]  # fmt: skip


def test_a_full_pool_refuses() -> None:
    def comes(me, pool):
        return (yield live.use(pool, 100))

    world = live.World()
    pool = world.pool("pool", 1, queue=1)
    for name in "abc":
        world.actor(comes, pool, name=name)
    result = world.run()
    assert result.returned == {"a": 0, "b": 0, "c": None}
    assert result.summary.pools[0].refused == 1


def test_tasks_of_a_fair_pool_share_it() -> None:
    ends = {}

    def comes(me, pool, ns):
        yield live.use(pool, ns)
        ends[me.name] = me.now

    world = live.World()
    pool = world.pool("pool", 1, discipline="fair")
    world.actor(comes, pool, 100, name="long")
    world.actor(comes, pool, 20, name="short", at_ns=50)
    world.run()
    assert ends == {"short": 90.0, "long": 120.0}  # both at half speed from 50 to 90


# --- queueing theory ----------------------------------------------------------------------------


def arrivals(me, pool, n, rate, service, seen):
    def customer(ns):
        came = me.now
        place = yield live.use(pool, ns)
        seen.append(math.nan if place is None else me.now - came)

    for _ in range(n):
        yield live.sleep(me.random.expovariate(rate))
        yield live.spawn(customer(service(me.random)))


def times(n: int, rate: float, service, **pool_options) -> list[float]:
    world, seen = live.World(record=False), []
    pool = world.pool("pool", **pool_options)
    world.actor(arrivals, pool, n, rate, service, seen)
    world.run()
    return seen


def mean_and_error(values: list[float], batches: int = 20) -> tuple[float, float]:
    """The mean and a 99 % confidence half-width, by means of batches (Student's t with 19 degrees)."""
    size = len(values) // batches
    means = [sum(values[i * size : (i + 1) * size]) / size for i in range(batches)]
    mean = sum(means) / batches
    deviation = math.sqrt(sum((m - mean) ** 2 for m in means) / (batches - 1))
    return mean, 2.861 * deviation / math.sqrt(batches)


def erlang_b(load: float, servers: int) -> float:
    blocked = 1.0
    for k in range(1, servers + 1):
        blocked = load * blocked / (k + load * blocked)
    return blocked


def erlang_c(load: float, servers: int) -> float:
    b = erlang_b(load, servers)
    return servers * b / (servers - load * (1 - b))


@pytest.mark.slow
@pytest.mark.parametrize(("servers", "load"), [(1, 0.6), (4, 2.8)])
def test_mmk_waits_as_erlang_c_says(servers: int, load: float) -> None:
    seen = times(40_000, load / 1000, lambda r: r.expovariate(0.001), width=servers)
    mean, error = mean_and_error(seen)
    expected = 1000 * (1 + erlang_c(load, servers) / (servers - load))
    assert abs(mean - expected) < error


@pytest.mark.slow
def test_processor_sharing_does_not_depend_on_the_kind_of_service() -> None:
    seen = times(
        40_000, 0.6 / 1000, lambda r: 100 if r.random() < 0.9 else 9100, width=1, discipline="fair"
    )
    mean, error = mean_and_error(seen)
    assert abs(mean - 1000 / (1 - 0.6)) < error


@pytest.mark.slow
def test_a_loss_system_refuses_as_erlang_b_says() -> None:
    seen = times(40_000, 3 / 1000, lambda r: r.expovariate(0.001), width=4, queue=0)
    mean, error = mean_and_error([float(math.isnan(s)) for s in seen])
    assert abs(mean - erlang_b(3, 4)) < error


def test_users_of_a_fair_pool_get_equal_shares() -> None:
    done = dict.fromkeys("abcd", 0.0)

    def works(me, pool, ns):
        while True:
            yield live.use(pool, ns)
            done[me.name] += ns

    world = live.World(record=False)
    pool = world.pool("pool", 2, discipline="fair")
    for name, ns in zip(done, (10, 35, 80, 200), strict=True):
        world.actor(works, pool, ns, name=name)
    world.run(until=100_000)
    assert max(done.values()) / min(done.values()) < 1.01
