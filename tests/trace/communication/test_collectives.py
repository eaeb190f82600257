"""Communication is matched across ranks: by recorded number, else by order; messages by ends and tag."""

from __future__ import annotations

from chakrakit import CollectiveType, Groups, Trace, TraceBuilder, TraceSet


def rank(*starts: int, **fields: object) -> Trace:
    t = TraceBuilder()
    for i, start in enumerate(starts):
        each = {k: v[i] if isinstance(v, list) else v for k, v in fields.items()}
        t.collective(
            f"c{i}", CollectiveType.ALL_REDUCE, 8, start_ns=start, duration_ns=1000, **each
        )
    return t.build()


def test_an_instance_has_its_last_arrival_and_what_is_left_is_transfer() -> None:
    found = TraceSet([rank(1000, 5000), rank(1400, 4000)]).collectives
    rows = found.instances.select(
        ["seq", "ranks", "arrival_ns", "end_ns", "transfer_ns"]
    ).to_pylist()
    assert rows == [
        {"seq": 0, "ranks": 2, "arrival_ns": 1400, "end_ns": 2400, "transfer_ns": 1000},
        {"seq": 1, "ranks": 2, "arrival_ns": 5000, "end_ns": 6000, "transfer_ns": 1000},
    ]
    assert found.calls.column("instance").to_pylist() == [0, 1, 0, 1]


def test_recorded_numbers_win_over_order() -> None:
    found = TraceSet([rank(0, 10, comm_seq=[4, 5]), rank(0, 10, comm_seq=[5, 6])]).collectives
    assert found.instances.column("seq").to_pylist() == [4, 5, 6]
    assert found.instances.column("ranks").to_pylist() == [1, 2, 1]
    assert all(found.calls.column("recorded").to_pylist())


def test_groups_are_counted_apart_and_names_of_the_world_are_one() -> None:
    found = TraceSet(
        [rank(0, 1, pg_name=["", "7"]), rank(0, 1, pg_name=["0", "7"])],
        groups=Groups({"7": [0, 1]}),
    ).collectives
    assert found.instances.column("ranks").to_pylist() == [2, 2]


def test_messages_are_counted_by_ends_and_tag() -> None:
    a, b = TraceBuilder(), TraceBuilder()
    for tag in (1, 1, 2):
        a.send("s", 0, 1, 16, tag)
        b.recv("r", 0, 1, 16, tag)
    found = TraceSet([a.build(), b.build()]).collectives.messages
    columns = ["rank", "src", "dst", "tag", "nth", "is_send"]
    assert [tuple(r.values()) for r in found.select(columns).to_pylist()] == [
        (0, 0, 1, 1, 0, True),
        (0, 0, 1, 1, 1, True),
        (0, 0, 1, 2, 0, True),
        (1, 0, 1, 1, 0, False),
        (1, 0, 1, 1, 1, False),
        (1, 0, 1, 2, 0, False),
    ]


def test_a_set_without_communication_has_empty_tables() -> None:
    for traces in (TraceSet([Trace.from_columns({"name": ["a"]})]), TraceSet([])):
        found = traces.collectives
        assert (found.calls.num_rows, found.instances.num_rows, found.messages.num_rows) == (
            0,
            0,
            0,
        )
