"""Requests as other tools record or describe them."""

from __future__ import annotations

import numpy as np
import pytest

from chakrakit.errors import ChakraError, ConfigError, FormatError
from chakrakit.serving.requests import read_requests
from support.commands import data
from support.foreign_workloads import (
    AIPERF,
    BLIS,
    BLIS_TRACE,
    DYNAMO,
    GUIDELLM,
    OTEL,
    SERVEGEN,
    SERVEGEN_LENGTHS,
)

SECOND = 10**12


@pytest.fixture
def read(tmp_path):
    def stream(text, name="requests"):
        (tmp_path / name).write_text(text)
        return read_requests(tmp_path / name)

    return stream


def test_dynamo_keeps_sessions_prefixes_and_the_time_of_tools(read):
    stream = read(DYNAMO)
    assert (stream.prompt.tolist(), stream.output.tolist()) == ([40, 60], [5, 6])
    assert stream.after.tolist() == [-1, 0]
    assert stream.arrival_ps.tolist() == [0, round(0.75 * SECOND)]
    assert (stream.unit, stream.ids.tolist()) == (16, [7, 8, 9, 7, 8, 1])
    assert "1 requests without tokens" in stream.notes[0]


def test_aiperf_s_records_without_errors(read):
    stream = read(AIPERF)
    assert (stream.prompt.tolist(), stream.arrival_ps.tolist()) == ([100, 50], [0, SECOND // 2])
    assert stream.names[0] == "a"
    assert stream.notes == (
        "1 requests of the warm-up were left out",
        "1 requests that did not succeed were left out",
    )


def test_aiperf_s_conversations_are_told_by_the_time_they_were_held(read):
    """The same prompts of a dataset may be sent again, which is no next turn."""
    line = (
        '{{"metadata": {{"request_start_ns": {0}, "request_end_ns": {0}, "turn_index": {1}, '
        '"conversation_id": "c", "x_correlation_id": "{2}"}}, "metrics": '
        '{{"input_sequence_length": {{"value": 5}}, "output_sequence_length": {{"value": 3}}}}}}\n'
    )
    stream = read(line.format(1, 0, "x") + line.format(2, 1, "x") + line.format(3, 0, "y"))
    assert stream.after.tolist() == [-1, 0, -1]


def test_a_folder_of_aiperf_s_is_opened_and_its_summary_named(tmp_path):
    summary = '{"aiperf_version": "0.4", "request_count": {"avg": 2}}'
    (tmp_path / "profile_export_aiperf.json").write_text(summary)
    with pytest.raises(FormatError, match=r"summary; give the requests, profile_export\.jsonl"):
        read_requests(tmp_path)
    (tmp_path / "profile_export.jsonl").write_text(AIPERF)
    assert len(read_requests(tmp_path).prompt) == 2
    (tmp_path / "again.jsonl").write_text(AIPERF)
    with pytest.raises(ConfigError, match=r"again\.jsonl, profile_export\.jsonl"):
        read_requests(tmp_path)


def test_guidellm_s_successful_requests_in_the_order_of_arrival(read):
    stream = read(GUIDELLM)
    assert (stream.prompt.tolist(), stream.arrival_ps.tolist()) == ([64, 128], [0, SECOND])
    assert stream.notes == ("1 requests that did not succeed were left out",)


def test_spans_by_the_names_of_two_conventions(read):
    stream = read(OTEL)
    assert (stream.prompt.tolist(), stream.output.tolist()) == ([30, 12], [5, 4])
    assert stream.arrival_ps.tolist() == [0, SECOND]
    assert "1 spans without counts" in stream.notes[0]


def test_blis_draws_its_clients_and_sessions(read):
    stream = read(BLIS)
    assert 50 <= len(stream) <= 60
    turns = np.flatnonzero(stream.after >= 0)
    assert len(turns) == 20
    assert (stream.arrival_ps[turns] == SECOND // 2).all()
    assert (stream.prompt[turns] > stream.prompt[stream.after[turns]]).all()
    assert read(BLIS).prompt.tolist() == stream.prompt.tolist()


def test_a_blis_trace_keeps_rounds_and_leaves_out_what_failed(read):
    """The second round came half a second after the first had ended; the server counted its prompt."""
    stream = read(BLIS_TRACE)
    assert stream.prompt.tolist() == [100, 200, 300]
    assert stream.output.tolist() == [20, 30, 10]
    assert stream.after.tolist() == [-1, 0, -1]
    assert stream.arrival_ps.tolist() == [0, SECOND // 2, 8 * SECOND // 10]
    assert "1 requests that failed were left out" in stream.notes
    assert "prefixes that groups of requests share are not kept" in stream.notes
    with pytest.raises(ChakraError, match="row 1: output_tokens is 'many', not a number"):
        read(BLIS_TRACE.replace("100,20,", "100,many,"))


def test_servegen_draws_by_rates_and_probabilities(read, tmp_path):
    (tmp_path / "chunk-7-dataset.json").write_text(SERVEGEN_LENGTHS)
    stream = read(SERVEGEN, "chunk-7-trace.csv")
    assert 200 < len(stream) < 520
    assert set(stream.prompt.tolist()) == {100, 200}
    assert 0.6 < (stream.output == 20).mean() < 0.9


def test_servegen_s_lengths_are_parsed_and_never_evaluated(read, tmp_path):
    lengths = SERVEGEN_LENGTHS.replace("{100: 0.5, 200: 0.5}", "{100: __import__('os').getpid()}")
    (tmp_path / "chunk-7-dataset.json").write_text(lengths)
    with pytest.raises(ChakraError, match="value: probability"):
        read(SERVEGEN, "chunk-7-trace.csv")


@pytest.mark.parametrize("probabilities", ["{100: 0..5}", "{100: 9e999}"])
def test_servegen_s_probabilities_have_a_sum(read, tmp_path, probabilities):
    lengths = SERVEGEN_LENGTHS.replace("{100: 0.5, 200: 0.5}", probabilities)
    (tmp_path / "chunk-7-dataset.json").write_text(lengths)
    with pytest.raises(ChakraError, match="probabilit"):
        read(SERVEGEN, "chunk-7-trace.csv")


def test_serve_takes_them(tmp_path):
    (tmp_path / "requests").write_text(DYNAMO)
    engine = ("--model", "llama-3.1-8b", "--machine", "dgx-h100", "--compute", "roofline")
    result = data("serve", *engine, "--requests", tmp_path / "requests")
    assert result["requests"] == 2


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (DYNAMO.replace('"input_tokens": 40', '"input_tokens": "x"'), "line 1: input_tokens"),
        (DYNAMO + "\n{", "line 5 is not JSON"),
        (AIPERF.replace('"value": 100', '"value": null'), "line 1: input_sequence_length"),
        (GUIDELLM.replace('"request_start": 1700000005.0', '"request_start": []'), "request_start"),
        (
            OTEL.replace('"startTimeUnixNano": "2000000000"', '"startTimeUnixNano": "-2"'),
            "startTimeUnixNano",
        ),
        (BLIS.replace("gaussian", "dance"), "no distribution 'dance'"),
        (BLIS.replace("aggregate_rate: 10.0", "aggregate_rate: 0"), "a rate above 0"),
        (BLIS.replace("seed: 42", "seed: -42"), "seed is -42"),
        (BLIS.replace("cv: 2.0", "cv: 1.0e300"), r"cv is 1e\+300"),
        (BLIS.replace("cv: 2.0", "cv: 1000001"), "cv is 1000001.0; give 0 to 1,000,000"),
        (
            DYNAMO.replace('size": 16', 'size": 18446744073709551616'),
            "blocks of 18446744073709551616",
        ),
        (OTEL.replace('"key": "gen_ai', '"key": {"gen_ai": 1}, "was": "gen_ai'), "gave a token"),
        (SERVEGEN, "dataset.json beside it"),
        (SERVEGEN.replace("0.5,2.0", "5e6,2.0"), "requests in all"),
    ],
)
def test_damage_is_named(read, text, problem):
    with pytest.raises(ChakraError, match=problem):
        read(text)
