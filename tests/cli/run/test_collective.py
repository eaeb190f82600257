"""`chakra collective`: a table, and what it wants to know."""

from __future__ import annotations

import pytest

from support.commands import chakra, data, succeeded

H100 = ("--machine", "dgx-h100", "--members", "8")


def test_one_row_per_size() -> None:
    rows = data("collective", "all-reduce", *H100, "--sizes", "1KiB:4KiB")["rows"]
    assert [row["bytes"] for row in rows] == [1024, 2048, 4096]
    # nccl-tests: bus bandwidth of an all-reduce is 2 (n - 1) / n times the algorithm's
    assert rows[0]["busbw_gbs"] == pytest.approx(rows[0]["algbw_gbs"] * 2 * 7 / 8)


def test_people_get_two_decimals() -> None:
    told = succeeded("collective", "all-gather", *H100, "--sizes", "4096").splitlines()
    assert told[0].split()[:4] == ["bytes", "time", "us", "algorithm"]
    assert told[1].split()[0] == "4,096"


@pytest.mark.parametrize(
    "words", [("all-reduce", "--tokens", "128"), ("dispatch", "--sizes", "128"), ("all-reduce",)]
)
def test_tokens_are_for_experts_and_sizes_for_the_rest(words: tuple[str, ...]) -> None:
    done = chakra("collective", *words, *H100)
    assert done.exit_code == 2
    assert "give --tokens for dispatch and combine, --sizes for all others" in done.stderr
