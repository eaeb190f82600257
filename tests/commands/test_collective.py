"""`chakra collective`: a table, and what it wants to know."""

from __future__ import annotations

import pytest

import chakrakit as ck
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


def test_members_are_a_number_a_list_or_words() -> None:
    times = {
        ck.collective("all-reduce", "dgx-h100:2", members, [1 << 20]).rows[0].time_us
        for members in (8, list(range(8)), "0-7")
    }
    assert len(times) == 1


def test_experts_exchange_tokens() -> None:
    """Of each token to 2 of 16 experts: 1,024 values of a byte, 4 for each 128 of them, and 16."""
    table = ck.collective("dispatch", "dgx-h100", 8, tokens=[64], hidden=1024, topk=2, experts=16)
    assert table.rows[0].bytes == 64 * 2 * (1024 + 4 * 1024 // 128 + 16)


def test_an_exchange_of_experts_is_printed_by_term() -> None:
    """What it takes is its start, the longest of its parts and their filling, on a screen and in JSON."""
    words = ("collective", "dispatch", "--machine", "dgx-h100:2", "--members", 16, "--tokens", 4096)
    (row,) = data(*words)["rows"]
    terms = row["terms_us"]
    assert list(terms) == ["start", "network", "links", "copying", "filling"]
    slowest = max(terms["network"], terms["links"], terms["copying"])
    assert row["time_us"] == pytest.approx(terms["start"] + terms["filling"] + slowest)
    assert f"{terms['network']:.2f}" in chakra(*map(str, words)).stdout
