"""What storage servers did: rows of a counter, and the servers they stand for."""

from __future__ import annotations

from chakrakit.trace.sets import Counters, ServerUse, servers_of, storage_table


def server(number: int, operations: int) -> ServerUse:
    return ServerUse(
        store="lustre",
        server=number,
        operations=operations,
        read_bytes=10.0 * operations,
        written_bytes=0.0,
        wait_ns=3.0,
        longest_wait_ns=2.0,
        busy_ns=9.0,
        most_in_flight=2,
        longest_queue=1,
    )


def test_servers_come_back_from_the_table_that_they_make() -> None:
    used = [server(0, 4), server(1, 0)]
    table = storage_table(used)
    assert table["server"] == [0, 1]
    assert table["read_bytes"] == [40.0, 0.0]
    assert servers_of(Counters({"storage": table})) == used


def test_a_run_without_storage_has_no_servers() -> None:
    assert servers_of(Counters({})) == []
