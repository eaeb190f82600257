"""`chakra mcp`: twenty questions of an agent, asked over standard input and output by an ordinary client."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import chakrakit as ck
from support.commands import chakra

mcp = pytest.importorskip("mcp", reason="pip install 'chakrakit[mcp]'")


@dataclass(frozen=True)
class Question:
    """What an agent wants to know, the tool that knows, and how the answer is read from the result."""

    text: str
    tool: str
    arguments: Mapping[str, Any]
    answer: Callable[[dict[str, Any]], Any]
    expected: Any


def _gain(result: dict[str, Any]) -> float:
    what_if = result["what_if"]
    return float(what_if["gains"][0]["saved_ns"])


QUESTIONS = [
    Question("Which files are there?", "list_files", {},
             lambda r: [e["path"] for e in r["entries"]], ["a", "b", "w.0.et", "w.1.et", "w.json"]),
    Question("How many ranks does w have?", "info", {"path": "w"}, lambda r: r["ranks"], 2),
    Question("How many nodes does rank 0 of w have?", "query",
             {"path": "w", "sql": "SELECT count(*) FROM nodes WHERE rank = 0"},
             lambda r: r["rows"][0][0], 6),
    Question("Is w valid?", "validate", {"path": "w"}, lambda r: r["errors"], 0),
    Question("How many bytes does the all-reduce of w move?", "query",
             {"path": "w", "sql": "SELECT max(comm_size) FROM collectives"},
             lambda r: r["rows"][0][0], 4_000_000),
    Question("Which ranks are in the all-reduce's group?", "query",
             {"path": "w", "sql": "SELECT DISTINCT rank FROM calls ORDER BY rank"},
             lambda r: r["rows"], [[0], [1]]),
    Question("How long does run a take?", "analyze", {"path": "a"}, lambda r: r["span_ns"], 900_000),
    Question("And run b?", "analyze", {"path": "b"}, lambda r: r["span_ns"], 600_000),
    Question("How long does rank 0 of a compute?", "analyze", {"path": "a"},
             lambda r: r["ranks"][0]["breakdown"]["compute_ns"], 500_000),
    Question("How much communication is exposed in a?", "analyze", {"path": "a"},
             lambda r: r["ranks"][0]["breakdown"]["exposed_comm_ns"], 400_000),
    Question("Which operator of a takes longest?", "analyze", {"path": "a", "sections": ["operators"]},
             lambda r: r["operators"]["operators"][0]["name"], "gemm"),
    Question("What would twice as fast communication save in a?", "what_if",
             {"path": "a", "faster": {"communication": 2}}, _gain, 200_000),
    Question("What would gemms five times as fast save in a?", "what_if",
             {"path": "a", "faster": {"gemm": 5}}, _gain, 400_000),
    Question("How many nanoseconds is b's step shorter than a's?", "compare", {"a": "a", "b": "b"},
             lambda r: r["step"]["a_ns"] - r["step"]["b_ns"], 300_000),
    Question("Which machine has H200s?", "machines", {"name": "dgx-h200"},
             lambda r: "H200" in json.dumps(r), True),
    Question("How long would w take on eight H200s?", "simulate",
             {"path": "w", "machine": "dgx-h200"}, lambda r: 500_000 < r["makespan_ns"] < 600_000, True),
    Question("What did the recording in /etc/passwd take?", "info", {"path": "../../../etc/passwd"},
             str, "outside of the served folder"),
    Question("What loss did run a reach?", "query", {"path": "a", "sql": "SELECT loss FROM nodes"},
             str, 'Referenced column "loss" not found'),
    Question("Keep a simulation of w as c.", "simulate",
             {"path": "w", "machine": "dgx-h200", "output": "c"}, str, "only reads"),
    Question("What is the temperature of rank 0?", "analyze", {"path": "a", "sections": ["temperature"]},
             str, "no section temperature"),
]  # fmt: skip


def _traces(collective_ns: int) -> ck.TraceSet:
    """Two ranks: five products one after the other, then an all-reduce."""
    builders = []
    for _ in range(2):
        builder = ck.TraceBuilder()
        last: list[int] = []
        for layer in range(5):
            last = [builder.comp("gemm", duration_ns=100_000, deps=last, start_ns=layer * 100_000)]
        builder.collective(
            "all-reduce",
            ck.CollectiveType.ALL_REDUCE,
            4_000_000,
            pg_name="1",
            start_ns=500_000,
            duration_ns=collective_ns,
            deps=last,
        )
        builders.append(builder)
    return ck.TraceSet.of(builders, groups={"1": (0, 1)})


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("served")
    ck.write(_traces(400_000), folder / "w.N.et")
    for name, collective_ns in (("a", 400_000), ("b", 100_000)):
        measured = {"compute": "measured", "communication": "measured"}
        ck.simulate(_traces(collective_ns), **measured, output=folder / name)
    (folder / "away").symlink_to(folder.parent)
    return folder


def _asked(folder: Path, questions: list[Question], *options: str) -> list[Any]:
    """Results of the tools, or the text of their errors, from one server process."""

    async def ask() -> list[Any]:
        start = [
            "-c", "from chakrakit.commands import main; main()", "mcp", str(folder), *options,
        ]  # fmt: skip
        parameters = mcp.StdioServerParameters(
            command=sys.executable, args=start, env=dict(os.environ)
        )
        async with mcp.Client(mcp.stdio_client(parameters)) as client:
            return [_content(await client.call_tool(q.tool, dict(q.arguments))) for q in questions]

    return asyncio.run(ask())


def _content(result: Any) -> Any:
    return result.content[0].text if result.is_error else result.structured_content


@pytest.mark.slow
def test_twenty_questions_have_their_answers(served: Path) -> None:
    results = _asked(served, QUESTIONS)
    wrong = []
    for question, result in zip(QUESTIONS, results, strict=True):
        refused = isinstance(result, str)
        right = (
            str(question.expected) in result
            if refused
            else question.answer is not str and question.answer(result) == question.expected
        )
        if not right:
            wrong.append((question.text, result if refused else str(question.answer(result))))
    assert wrong == []


@pytest.mark.slow
def test_a_server_that_may_write_keeps_a_run_in_its_folder(served: Path, tmp_path: Path) -> None:
    shutil.copytree(served, tmp_path / "own", symlinks=True)
    keep = {"path": "w", "machine": "dgx-h200", "output": "c"}
    question = Question("Keep a simulation of w as c.", "simulate", keep, str, "")
    _asked(tmp_path / "own", [question], "--write")
    assert ck.read(tmp_path / "own" / "c").world_size == 2


def test_an_answer_that_is_too_large_says_how_to_ask_for_less(
    served: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from chakrakit.commands import mcp as command

    monkeypatch.setattr(command, "LARGEST_ANSWER", 100)
    server = command.server_of(served)
    with pytest.raises(Exception, match="ask for fewer sections"):
        asyncio.run(server.call_tool("analyze", {"path": "a"}))


def test_a_link_that_leads_out_of_the_folder_is_not_followed(served: Path) -> None:
    from chakrakit.commands.mcp import Folder

    with pytest.raises(ck.ConfigError, match="outside of the served folder"):
        Folder(served).path("away/other")


@pytest.mark.parametrize("path", ["run", "run/w", "run/w.0.et"])
def test_a_link_among_the_files_of_a_trace_is_not_followed_out_of_the_folder(
    served: Path, tmp_path: Path, path: str
) -> None:
    from chakrakit.commands.mcp import Folder

    run = tmp_path / "run"
    run.mkdir()
    shutil.copy(served / "w.1.et", run)
    (run / "w.0.et").symlink_to(served / "w.0.et")
    with pytest.raises(ck.ConfigError, match=r"w\.0\.et is outside of the served folder"):
        Folder(tmp_path).path(path)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_server_that_is_told_to_end_ends_while_its_client_is_silent(
    number: signal.Signals, tmp_path: Path
) -> None:
    words = [sys.executable, "-m", "chakrakit", "mcp", str(tmp_path)]
    begin = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"},
    }}  # fmt: skip
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(json.dumps(begin).encode() + b"\n")
        server.stdin.flush()
        assert b"serverInfo" in server.stdout.readline()
        server.send_signal(number)
        try:
            assert server.wait(60) == 128 + number
        finally:
            server.kill()


@pytest.mark.parametrize(("told", "code"), [(KeyboardInterrupt(), 130), (SystemExit(143), 143)])
def test_a_server_ends_with_the_code_of_what_ended_it(
    told: BaseException, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(_how: str) -> None:
        raise told

    monkeypatch.setattr("chakrakit.commands.mcp.server_of", lambda *_: SimpleNamespace(run=run))
    assert chakra("mcp", str(tmp_path)).exit_code == code


def test_a_question_about_nothing_faster_is_told_what_to_give(tmp_path: Path) -> None:
    from chakrakit.commands.mcp import Folder, Tools

    with pytest.raises(ck.ConfigError, match=r"give `faster`, .* \{\"communication\": 2\}"):
        Tools(Folder(tmp_path), may_write=False).what_if("run")


def test_a_machine_is_a_preset_or_a_file_of_the_folder(served: Path) -> None:
    from chakrakit.commands.mcp import Folder, Tools

    tools = Tools(Folder(served), may_write=False)
    assert tools.machines("dgx-h100:2")["machine"]["devices"] == 16
    for name in ("/etc/passwd", "away/machine.yaml", "../machine.yaml"):
        with pytest.raises(ck.ConfigError, match="outside of the served folder"):
            tools.machines(name)
        with pytest.raises(ck.ConfigError, match="outside of the served folder"):
            tools.simulate("w", name)
    with pytest.raises(ck.ConfigError, match="is no path"):
        tools.info("w\0")


def test_a_query_without_end_is_given_up(served: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from chakrakit.commands import mcp as command

    monkeypatch.setattr(command, "LONGEST_QUERY_S", 0.1)
    tools = command.Tools(command.Folder(served), may_write=False)
    endless = "WITH RECURSIVE t(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM t) SELECT max(x) FROM t"
    with pytest.raises(ck.ConfigError, match=r"no answer within 0\.1 s; ask for less"):
        tools.query("a", endless)
    assert tools.query("a", "SELECT count(*) FROM ranks")["rows"] == [[2]]


@pytest.mark.slow
def test_a_server_ends_with_its_client_whatever_it_computes(served: Path) -> None:
    endless = "WITH RECURSIVE t(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM t) SELECT max(x) FROM t"
    client = {"name": "x", "version": "1"}
    start = {"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": client}
    call = {"name": "query", "arguments": {"path": "a", "sql": endless}}
    messages = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": start},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call},
    ]
    words = [sys.executable, "-m", "chakrakit", "mcp", str(served)]
    lines = "".join(json.dumps(message) + "\n" for message in messages)
    done = subprocess.run(
        words, input=lines, capture_output=True, text=True, timeout=50, check=False
    )
    assert done.returncode == 0
