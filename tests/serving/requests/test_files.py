"""Requests from files of every kind and from processes, and what is wrong with bad ones."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chakrakit.errors import ChakraError
from chakrakit.serving.requests import requests_from
from support.foreign_files import BENCH, RECORDED, SESSION

AZURE = (
    "TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
    "2023-11-16 18:17:03.9799600,4808,10\r\n"
    "2023-11-16 18:17:04.0319600,3180,8"
)
BURST = """\
Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type
5,ChatGPT,472,18,490,Conversation log
45.5,ChatGPT,1087,0,1087,API log
118,GPT-4,417,276,693,API log
"""
MOONCAKE = """\
{"timestamp": 0, "input_length": 6755, "output_length": 500, "hash_ids": [0, 1, 2]}
{"timestamp": 3000, "input_length": 600, "output_length": 1, "hash_ids": [0, 9]}
"""
LLMSIM = """\
{"input_toks":33,"output_toks":5,"arrival_time_ns":46926808,"block_ids":[4,5]}
{"input_toks":20,"output_toks":7,"arrival_time_ns":347938951.5,"block_ids":[4]}
"""


@pytest.mark.parametrize(
    ("text", "seconds", "prompt", "output"),
    [
        (AZURE, [0, 0.052], [4808, 3180], [10, 8]),
        (BURST, [5, 118], [472, 417], [18, 276]),
        (MOONCAKE, [0, 3], [6755, 600], [500, 1]),
        (LLMSIM, [0.046926808, 0.3479389515], [33, 20], [5, 7]),
        (SESSION, [1, 0.005], [10, 30], [2, 3]),
        (BENCH, [0, 0], [100, 200], [5, 6]),
        (RECORDED, [0.5], [10], [4]),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_formats_are_told_by_content(
    tmp_path: Path,
    text: str,
    seconds: list[float],
    prompt: list[int],
    output: list[int],
    packed: bool,
) -> None:
    """The same file, plain or packed and under any name, gives the same requests."""
    file = tmp_path / "requests"
    file.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    stream = requests_from(str(file))
    assert stream.arrival_ps.tolist() == pytest.approx([s * 1e12 for s in seconds])
    assert stream.prompt.tolist() == prompt
    assert stream.output.tolist() == output


def test_parquet_has_plain_columns(tmp_path: Path) -> None:
    """arrival_s, prompt and output, as a run's own table has them."""
    table = pa.table(
        {"id": ["a", "b"], "arrival_s": [0.25, 1.5], "prompt": [5, 6], "output": [7, 8]}
    )
    pq.write_table(table, tmp_path / "r.parquet")
    stream = requests_from(str(tmp_path / "r.parquet"))
    assert stream.arrival_ps.tolist() == [250_000_000_000, 1_500_000_000_000]
    assert stream.names == ["a", "b"]


def test_prefixes_come_with_the_unit_of_their_format(tmp_path: Path) -> None:
    """Mooncake names 512 tokens at a time, LLMServingSim 16; a session's turns follow each other."""
    units = {}
    for name, text in (("m", MOONCAKE), ("l", LLMSIM), ("s", SESSION)):
        (tmp_path / name).write_text(text)
        units[name] = requests_from(str(tmp_path / name))
    assert (units["m"].unit, units["m"].ids.tolist()) == (512, [0, 1, 2, 0, 9])
    assert (units["l"].unit, units["l"].offsets.tolist()) == (16, [0, 2, 3])
    assert units["s"].after.tolist() == [-1, 0]


def test_failures_of_burstgpt_are_counted(tmp_path: Path) -> None:
    """Requests without a response are left out, and the stream says so."""
    (tmp_path / "b.csv").write_text(BURST)
    assert requests_from(str(tmp_path / "b.csv")).notes == (
        "1 requests that gave no tokens (failures) were left out",
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"timestamp": 0, "input_length": -5, "output_length": 1}', "line 1: prompt length is -5"),
        ('{"timestamp": 0, "input_length": 5}', "line 1 has no output length"),
        ('{"timestamp": 0, "input_length": 5, "output_length": 0}', "line 1: output length is 0"),
        (
            '{"timestamp": 0, "input_length": 2.5, "output_length": 1}',
            "line 1: prompt length is 2.5",
        ),
        ('{"input_length": 5, "output_length": 1}', "line 1 has no arrival time"),
        (
            '{"timestamp": "x", "input_length": 5, "output_length": 1}',
            "timestamp is 'x', not a number",
        ),
        ('{"timestamp": -1, "input_length": 5, "output_length": 1}', "it must be 0 or later"),
        (
            '{"timestamp": 9, "input_length": 5, "output_length": 1}\n'
            '{"timestamp": 8, "input_length": 5, "output_length": 1}',
            "line 2: time goes backwards",
        ),
        (
            "arrival_s,prompt,output\n" + "".join(f"{t},5,6\n" for t in (9, 8, 7)),
            "line 3: time goes backwards, from 9 s to 8 s",
        ),
        (
            '{"timestamp": 0, "input_length": 5, "output_length": 1, "hash_ids": "a"}',
            "list of whole",
        ),
        ("{not json", "not a file of requests, in JSON or JSON lines"),
        ("a,b\n1,2\n", "no column for arrival times"),
        ("arrival_s,prompt,output\n1763400000000,5,6\n", "not a date; give seconds"),
        (AZURE.replace("3180", "-3"), "line 3: prompt length is -3"),
        (AZURE.replace("3180", ""), "line 3: prompt length is nothing"),
        (AZURE.replace("2023", " 1700", 1), "dates are more than ten years apart"),
        ("", "is empty"),
    ],
)
def test_bad_files_are_refused_with_the_line(tmp_path: Path, text: str, message: str) -> None:
    """What, where, and what it should be."""
    (tmp_path / "bad").write_text(text)
    with pytest.raises(ChakraError, match=message):
        requests_from(str(tmp_path / "bad"))


def test_dates_of_a_table_keep_their_nanoseconds(tmp_path: Path) -> None:
    """Since 1970 there are more than a double holds: the second request came 100 ns after the first."""
    first = 1_763_400_000_000_000_000
    dates = pa.array([first, first + 100], pa.timestamp("ns"))
    table = pa.table({"arrival_s": dates, "prompt": [5, 6], "output": [7, 8]})
    pq.write_table(table, tmp_path / "r.parquet")
    assert requests_from(str(tmp_path / "r.parquet")).arrival_ps.tolist() == [0, 100_000]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("first", "second", "apart"),
    [
        ("2024-05-10 00:00:00.5000000+00:00", "2024-05-10 00:00:02.7500000+00:00", 2.25),
        ("2024-05-10 00:00:00.0000000+00:00", "2024-05-10 02:00:03.0000000+02:00", 3.0),
        ("2024-05-10T00:00:00.0000000Z", "2024-05-09T18:30:01.0000000-0530", 1.0),
    ],
)
def test_the_time_zone_of_a_date_is_honoured(
    tmp_path: Path, first: str, second: str, apart: float
) -> None:
    """Of dates that a table holds as text; Arrow reads those of a CSV itself."""
    file = tmp_path / "requests.parquet"
    columns = {"TIMESTAMP": [first, second], "ContextTokens": [9, 9], "GeneratedTokens": [1, 1]}
    pq.write_table(pa.table(columns), file)
    begin, end = requests_from(str(file)).arrival_ps.tolist()
    assert (end - begin) / 1e12 == pytest.approx(apart)


def test_dates_of_which_only_some_state_a_time_zone_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "azure.csv"
    file.write_text(
        "TIMESTAMP,ContextTokens,GeneratedTokens\n"
        "2024-05-10 00:00:00,10,1\n2024-05-10 00:00:01+02:00,10,1\n"
    )
    with pytest.raises(ChakraError, match="others do not"):
        requests_from(str(file))
