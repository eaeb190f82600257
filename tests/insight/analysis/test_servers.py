"""The table of storage servers."""

from chakrakit.insight import server_table
from chakrakit.trace.sets import ServerUse


def test_one_row_per_server_in_the_units_of_its_head():
    server = ServerUse(
        store="disk",
        server=3,
        operations=8,
        most_in_flight=2,
        longest_queue=5,
        read_bytes=2_000_000_000,
        written_bytes=500_000_000,
        busy_ns=7_000_000,
        wait_ns=4_000_000,
        longest_wait_ns=1_500_000,
    )
    table = server_table([server])
    assert dict(zip(table.head, table.rows[0], strict=True)) == {
        "store": "disk",
        "server": 3,
        "operations": 8,
        "most in flight": 2,
        "longest queue": 5,
        "read GB": 2.0,
        "written GB": 0.5,
        "busy ms": 7.0,
        "waited ms": 4.0,
        "longest wait ms": 1.5,
    }
