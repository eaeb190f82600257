"""Every kind of file that is opened as it lies: one command, and the totals that its sample has.

Samples are the seeds of the fuzzers, so that a new format without a row here fails.
"""

from __future__ import annotations

import gzip
import json
from codecs import BOM_UTF8
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import chakrakit as ck
from chakrakit.serving.requests.files import read_requests
from fuzz.formats import FORMATS
from fuzz.formats.recordings import RECORDINGS, _kineto
from fuzz.formats.serving import MOONCAKE, SERVING
from support.commands import chakra, data

OPENED: dict[str, tuple[int, int, int, dict[str, int]]] = {
    # ranks, nodes, edges; bytes by type of communication, over all ranks
    "goal": (2, 5, 3, {"RECV": 64, "SEND": 64}),
    "goal-binary": (2, 5, 3, {"RECV": 64, "SEND": 64}),
    "simai": (8, 128, 120, {"ALL_REDUCE": 8 * 12_288, "ALL_TO_ALL": 8 * 4096, "REDUCE_SCATTER": 8 * 65_536}),
    "astra1": (8, 80, 72, {"ALL_REDUCE": 8 * (37_632 + 65_536)}),
    "aicb": (8, 32, 24, {"ALL_GATHER": 8 * 2048, "ALL_REDUCE": 8 * 8, "REDUCE_SCATTER": 8 * 65_536}),
    "param-comms": (1, 3, 2, {"ALL_REDUCE": 256 * 4, "ALL_TO_ALL": 64 * 2}),
    "msccl-workload": (3, 12, 9, {"RECV": 6 * 349_525, "SEND": 6 * 349_525}),  # thirds of 1 MiB
    "mscclpp-workload": (2, 8, 4, {"RECV": 2 * 4096, "SEND": 2 * 4096}),
    "kineto": (2, 62, 104, {"ALL_REDUCE": 4 * 128 * 4}),
    "observer": (2, 62, 104, {"ALL_REDUCE": 4 * 128 * 4}),
    "nsys": (1, 31, 38, {"ALL_REDUCE": 0}),  # kernels do not say how much
    "nsys-parquet": (1, 31, 38, {"ALL_REDUCE": 0}),
    "rocpd": (1, 21, 28, {"ALL_REDUCE": 0}),
    "perfetto": (1, 21, 28, {"ALL_REDUCE": 0}),
    "rocprof": (1, 6, 7, {}),
    "flight-recorder": (2, 16, 16, {"ALL_GATHER": 65_536 + 49_152, "ALL_REDUCE": 4096 + 8192}),
    "flight-recorder-pickle": (2, 16, 16, {"ALL_GATHER": 65_536 + 49_152, "ALL_REDUCE": 4096 + 8192}),
    "nccl-inspector": (2, 12, 14, {"ALL_REDUCE": 6 << 20}),
    "forward-passes": (2, 24, 28, {}),
    "xplane": (1, 24, 23, {}),
}  # fmt: skip
BESIDE = {"snapshot", "hlo-text", "hlo-protobuf"}
"""What lies beside a recording, and is not opened alone."""

NODES: dict[str, tuple[int, int, float]] = {
    # devices, links (both directions), the fastest in GB/s
    "nccl-topology": (2, 20, 450),
    "hwloc": (2, 14, 63),
    "nvidia-smi": (4, 48, 18 * 25),
    "rocm-smi": (2, 12, 64),
    "rocm-smi-json": (2, 12, 64),
    "amd-smi": (2, 10, 64),
    "amd-smi-json": (2, 10, 64),
    "simai-topology": (4, 16, 360),
    "infragraph": (4, 24, 450),
}

SERVED: dict[str, tuple[int, int, int]] = {
    # requests, tokens of prompts, tokens of outputs
    "requests-azure": (2, 48 + 31, 10 + 8),
    "requests-mooncake": (2, 755 + 600, 5 + 1),
    "requests-parquet": (2, 5 + 6, 7 + 8),
    "requests-dynamo": (2, 40 + 60, 5 + 6),
    "requests-aiperf": (2, 100 + 50, 7 + 3),
    "requests-guidellm": (2, 128 + 64, 10 + 20),
    "requests-opentelemetry": (2, 12 + 30, 4 + 5),
    "requests-blis": (60, 14_990, 2420),
    "requests-blis-trace": (3, 100 + 200 + 300, 20 + 30 + 10),
    "requests-servegen": (84, 13_500, 1470),
}


@pytest.fixture(autouse=True)
def own_folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is kept from one test to the next."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path_factory.mktemp("temporary")))


def seeded(folder: Path, name: str) -> Path:
    FORMATS[name].seed(folder)
    return folder


@pytest.mark.parametrize("name", OPENED)
def test_a_recording_or_workload_opens_with_its_totals(name: str, tmp_path: Path) -> None:
    found = data("info", str(seeded(tmp_path, name)))
    moved: dict[str, int] = {}
    for row in found["communication"]:
        moved[row["type"]] = moved.get(row["type"], 0) + row["bytes"]
    edges = found["edges"]["data"] + found["edges"]["ctrl"]
    assert (found["ranks"], found["nodes"], edges, moved) == OPENED[name]


@pytest.mark.parametrize("name", NODES)
def test_a_node_opens_as_a_machine(name: str, tmp_path: Path) -> None:
    file = next(f for f in seeded(tmp_path, name).iterdir() if f.is_file())
    machine = data("machines", str(file))["machine"]
    fastest = max(b for dimension in machine["dimensions"] for b in dimension["bandwidths"])
    assert (machine["devices"], machine["links"], fastest / 1e9) == NODES[name]


@pytest.mark.parametrize("name", SERVED)
def test_requests_are_served_to_the_last_token(name: str, tmp_path: Path) -> None:
    file = seeded(tmp_path, name) / "requests"
    file = file if file.exists() else next(tmp_path.glob("*.csv"))
    engine = ("--model", "llama-3.1-8b", "--machine", "dgx-h100", "--compute", "roofline")
    served: dict[str, Any] = data("serve", *engine, "--requests", str(file))
    total, output = (
        round(served[f"{kind}_tokens_per_s"] * served["duration_s"]) for kind in ("total", "output")
    )
    assert served["finished"] == served["requests"]
    assert (served["requests"], total - output, output) == SERVED[name]


def test_a_folder_as_stage_leaves_it_opens_with_the_groups_beside_its_traces(
    tmp_path: Path,
) -> None:
    """Two ranks that reduce 4 KiB in group 1; STAGE's arguments and figures lie beside them."""
    for rank in range(2):
        builder = ck.TraceBuilder()
        product = builder.comp("mm", num_ops=10)
        builder.collective("reduce", ck.CollectiveType.ALL_REDUCE, 4096, group="1", deps=[product])
        ck.write(ck.TraceSet.of([builder]), tmp_path / f"w.{rank}.et")
    (tmp_path / "w.json").write_text('{"0": [0], "1": [0, 1]}')
    (tmp_path / "stats.json").write_text('{"nodes": 4}')
    (tmp_path / "args.csv").write_text("model,dense\n")
    found = data("info", str(tmp_path))
    assert (found["ranks"], found["nodes"], found["edges"]["data"]) == (2, 4, 2)
    assert found["communication"][0]["bytes"] == 2 * 4096


def kineto(rank: int) -> bytes:
    """As profilers on Windows and editors leave it: with a mark of the bytes' order, and long line ends."""
    text = json.dumps(_kineto(rank), indent=1).replace("\n", "\r\n")
    return BOM_UTF8 + text.encode()


PACKED: dict[str, Callable[[bytes], bytes]] = {
    "json": lambda data: data,
    "json.gz": gzip.compress,
    "json.zst": lambda data: pa.compress(data, codec="zstd", asbytes=True),
}


@pytest.mark.parametrize("suffix", PACKED)
def test_a_recording_opens_however_it_was_packed(suffix: str, tmp_path: Path) -> None:
    (tmp_path / f"my trace (rank 0) - copy.{suffix}").write_bytes(PACKED[suffix](kineto(0)))
    (tmp_path / "README.md").write_text("# my run")
    found = data("info", str(tmp_path))
    assert (found["ranks"], found["nodes"]) == (1, 31)


def test_recordings_that_lie_months_apart_are_no_ranks_of_one_job(tmp_path: Path) -> None:
    """Communication would set ranks of one job on one clock; here there is none in common."""
    for rank, since in enumerate((0, 100 * 86_400 * 10**9)):
        content = _kineto(rank)
        content["baseTimeNanoseconds"] += since
        content["distributedInfo"] = {"backend": "nccl", "rank": rank, "world_size": 2}
        content["traceEvents"] = [e for e in content["traceEvents"] if "nccl" not in str(e)]
        (tmp_path / f"worker{rank}.json").write_text(json.dumps(content))
    done = chakra("info", str(tmp_path))
    assert done.exit_code == 2
    assert "worker1.json: recorded 100 days after worker0.json" in " ".join(done.stderr.split())


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("my report.nsys-rep", b"\0", "nsys export --type sqlite -o 'my report.sqlite'"),
        ("gemm.ncu-rep", b"NVR\0", "record the program with Nsight Systems"),
        ("7_kernel_trace.csv", b'"Kind","Agent_Id","Queue_Id"\n', "--output-format rocpd"),
        ("vm.trace.json", b'{"metadata":{"highres-ticks":true},"traceEvents":[]}', "xplane.pb"),
    ],
)
def test_what_cannot_be_read_says_what_to_give_instead(
    name: str, content: bytes, said: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(content)
    for command in (("info",), ("link", "-o", str(tmp_path / "run"))):
        done = chakra(*command, str(tmp_path))
        assert done.exit_code == 2
        assert said in " ".join(done.stderr.split())


def test_rows_in_a_journal_beside_a_database_are_not_left_out(tmp_path: Path) -> None:
    """As a profiler that is killed leaves it."""
    FORMATS["nsys"].seed(tmp_path)
    [database] = tmp_path.glob("*.sqlite")
    (tmp_path / f"{database.name}-wal").write_bytes(b"\x37\x7f\x06\x82")
    done = chakra("info", str(database))
    assert done.exit_code == 2
    assert f"rows are in {database.name}-wal beside it" in " ".join(done.stderr.split())


@pytest.mark.parametrize("suffix", ["jsonl", "jsonl.gz"])
def test_requests_open_however_an_editor_left_them(suffix: str, tmp_path: Path) -> None:
    """With a mark of the bytes' order, long line ends, an empty line, and ids of 64 bits."""
    lines = MOONCAKE.replace("[0,", "[18446744073709551615,").replace("\n", "\r\n\r\n")
    content = BOM_UTF8 + lines.encode()
    (tmp_path / f"r.{suffix}").write_bytes(gzip.compress(content) if ".gz" in suffix else content)
    stream = read_requests(tmp_path / f"r.{suffix}")
    assert (stream.prompt.tolist(), stream.output.tolist()) == ([755, 600], [5, 1])


def test_a_folder_with_packed_requests_is_opened(tmp_path: Path) -> None:
    FORMATS["requests-aiperf"].seed(tmp_path)
    records = tmp_path / "requests"
    (tmp_path / "profile_export.jsonl.gz").write_bytes(gzip.compress(records.read_bytes()))
    records.unlink()
    assert read_requests(tmp_path).prompt.tolist() == [100, 50]


def test_beside_a_recording_it_is_passed_over(tmp_path: Path) -> None:
    """As a report lies beside its export, and XLA's picture beside its profile."""
    (tmp_path / "kineto.json").write_bytes(kineto(0))
    (tmp_path / "my report.nsys-rep").write_bytes(b"\0")
    (tmp_path / "vm.trace.json").write_text('{"metadata":{"highres-ticks":true},"traceEvents":[]}')
    assert data("info", str(tmp_path))["nodes"] == 31


def test_no_kind_is_without_a_row() -> None:
    recordings = {f.name for f in RECORDINGS}
    assert recordings - BESIDE == set(OPENED)
    others = {
        "requests-burstgpt",
        "requests-llmservingsim",
        "requests-vllm-bench",
        "requests-recorded",
    }
    requests = {f.name for f in SERVING if f.name.startswith("requests-")}
    assert requests - others == set(SERVED), "the others are opened in tests/serving/requests"


@pytest.mark.parametrize(
    ("listed", "size", "world"),
    [
        ("[0, 2, 4, 6]", 4, 7),
        ("[0, 1, 2, ..., 63]", 64, 64),
        ("[0, 2, 4, ..., 126]", 64, 1),  # which lie between is not said
        ("[4, 5]", 2, 1),  # this rank is not among them: it is counted otherwise
    ],
)
def test_a_lone_recording_says_who_else_was_in_its_groups(
    listed: str, size: int, world: int, tmp_path: Path
) -> None:
    """Without a description of groups in its head: by the ranks that PyTorch lists with every call."""
    content = _kineto(0)
    content.pop("distributedInfo", None)
    for event in content["traceEvents"]:
        if "Collective name" in event.get("args", {}):
            event["args"] |= {"Process Group Ranks": listed, "Group size": size}
    (tmp_path / "t.json").write_text(json.dumps(content))
    said = chakra("link", str(tmp_path), "-o", str(tmp_path / "run")).stdout
    assert (f"group '0' has {size} ranks, and the recording lists 1" in said) is (world == 1)
    assert f"1 rank of {world}" in chakra("info", str(tmp_path / "run")).stdout
