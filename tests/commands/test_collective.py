"""`chakra collective`: a table, and what it wants to know."""

from __future__ import annotations

from pathlib import Path

import pytest

import chakrakit as ck
from chakrakit.errors import ConfigError, FormatError
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


# --- beside a log ---------------------------------------------------------------------------------


def _log(path: Path, rows: dict[int, float], ranks: int = 8, title: str = "") -> Path:
    """A log as nccl-tests write it, which name the test only in later versions."""
    head = [f"# Collective test starting: {title}"] if title else ["# nThread 1 nGpus 8"]
    head += [
        f"#  Rank  {r} Group  0 Pid 1 on host device  {r} [0x00] NVIDIA H100" for r in range(ranks)
    ]
    lines = [
        f"{size:>12} {size // 4:>12} float sum -1 {us:.2f} 0 0 0 {us:.2f} 0 0 0"
        for size, us in rows.items()
    ]
    path.write_text("\n".join([*head, *lines]))
    return path


def _expected(sizes: list[int]) -> dict[int, float]:
    return {
        row.bytes: row.time_us for row in ck.collective("all-reduce", "dgx-h100", 8, sizes).rows
    }


def test_a_log_within_its_intervals_is_as_expected(tmp_path: Path) -> None:
    log = _log(tmp_path / "all_reduce_perf.log", _expected([1 << 12, 1 << 20, 1 << 28]))
    table = ck.collective("all-reduce", "dgx-h100", against=log)
    assert [m.ratio for m in table.measured] == pytest.approx([1, 1, 1], rel=1e-3)
    assert all(m.interval_us[0] < m.measured_us < m.interval_us[1] for m in table.measured)
    assert {m.verdict for m in table.measured} == {"expected"}
    assert table.notes[0] == "as expected: all 3 sizes lie in their intervals"


def test_sizes_that_are_slower_or_faster_are_named(tmp_path: Path) -> None:
    times = _expected([1 << 12, 1 << 20, 1 << 26, 1 << 28])
    slow = {size: us * (3 if size >= 1 << 26 else 1) for size, us in times.items()}
    slow[1 << 12] /= 5
    log = _log(tmp_path / "log.txt", slow, title="all_reduce_perf")
    printed = succeeded("collective", "all-reduce", "--machine", "dgx-h100", "--against", str(log))
    assert "slower than expected: 67,108,864 to 268,435,456 bytes" in printed
    assert "with 3.00 times the expected time" in " ".join(printed.split())
    assert "faster than expected: 4,096 bytes" in printed
    assert all(len(line) <= 80 for line in printed.splitlines()[:5])  # the table


def test_the_argument_says_what_a_log_does_not(tmp_path: Path) -> None:
    log = _log(tmp_path / "out.txt", _expected([1 << 20]), ranks=0)
    table = ck.collective("all-reduce", "dgx-h100", 8, against=log)
    assert table.members == 8
    assert table.measured[0].ratio == pytest.approx(1, rel=1e-3)


def test_a_log_of_something_else_is_refused(tmp_path: Path) -> None:
    log = _log(tmp_path / "log.txt", {1 << 20: 50.0}, title="all_gather_perf")
    for members in (None, 8, 16):
        with pytest.raises(ConfigError, match="holds all-gather of 8; it was asked for all-reduce"):
            ck.collective("all-reduce", "dgx-h100:2", members, against=log)
    with pytest.raises(ConfigError, match="says the sizes"):
        ck.collective("all-reduce", "dgx-h100", 8, "1MiB", against=log)
    with pytest.raises(ConfigError, match="give --members"):
        ck.collective("all-reduce", "dgx-h100", sizes="1MiB")


def test_calibrate_says_how_to_name_the_test(tmp_path: Path) -> None:
    log = _log(tmp_path / "out.txt", {1 << 20: 50.0, 1 << 21: 60.0})
    with pytest.raises(FormatError, match=r"as in all_reduce_perf\.log"):
        ck.calibrate(log, nccl_tests=True, output=tmp_path / "net.json")
    named = log.rename(tmp_path / "all_reduce_perf.log")
    assert ck.calibrate(named, nccl_tests=True, output=tmp_path / "net.json").ranges
    log = _log(tmp_path / "all_gather_perf.log", {1 << 20: 50.0}, ranks=0)
    with pytest.raises(FormatError, match="no `# Rank` lines"):
        ck.calibrate(log, nccl_tests=True, output=tmp_path / "net.json")
