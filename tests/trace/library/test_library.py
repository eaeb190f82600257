"""Libraries of traces: what is fetched is what the index lists, and simulators are scored on it."""

from __future__ import annotations

import http.server
import json
import sys
import threading
from functools import partial

import pytest

import chakrakit as ck
from chakrakit.errors import ConfigError, FormatError
from chakrakit.machines import load_machine
from chakrakit.trace.library import INDEX, entry_of, read_index, write_index
from support.commands import succeeded


def two_steps():
    """Two steps of 1 ms of one rank, 3e9 FLOPs each."""
    t = ck.TraceBuilder()
    last = []
    for step in range(2):
        options = {"duration_ns": 1_000_000, "num_ops": 3_000_000_000, "step": step, "stream": 7}
        last = [t.comp("gemm", deps=last, **options)]
    return ck.TraceSet.of(t)


@pytest.fixture
def library(tmp_path):
    folder = tmp_path / "library"
    folder.mkdir()
    file = folder / "one.chakra"
    ck.bundle(two_steps(), file)
    write_index(folder, [entry_of(file, machine="dgx-h200", step_ns=1.25e6)])
    return folder


def changed(library, **fields):
    index = json.loads((library / INDEX).read_text())
    index["bundles"][0].update(fields)
    (library / INDEX).write_text(json.dumps(index))


def test_a_bundle_is_fetched_from_a_folder_once_and_opens(library, tmp_path):
    assert "one" in succeeded("get", "--from", str(library))
    told = json.loads(
        succeeded("get", "one", "--from", str(library), "-o", str(tmp_path), "--json")
    )
    assert told["fetched"] is True
    assert len(ck.read(told["path"]).trace(0)) == 2
    assert ck.get("one", library, tmp_path).fetched is False


def test_a_library_may_lie_on_a_server(library, tmp_path):
    serving = partial(http.server.SimpleHTTPRequestHandler, directory=str(library))
    serving.log_message = lambda *_: None
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), serving) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        place = f"http://127.0.0.1:{server.server_port}"
        assert ck.get("one", place, tmp_path).entry == read_index(library).bundles[0]
        with pytest.raises(ConfigError, match=r"(?i)not found"):
            read_index(place + "/nowhere")
        server.shutdown()


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"sha256": "0" * 64}, "checksum is not the one listed"),
        ({"bytes": 100}, "more than the 100 bytes listed"),
        ({"bytes": 10**9}, "bytes early"),
        ({"bytes": 10**12}, "--most-bytes 1000000000000"),
        ({"file": "../one.chakra"}, "library.json"),
        ({"file": "/etc/passwd"}, "library.json"),
        ({"file": "gone.chakra"}, "gone.chakra: No such file"),
    ],
)
def test_what_is_not_as_listed_leaves_nothing(library, tmp_path, fields, told):
    changed(library, **fields)
    there = tmp_path / "there"
    with pytest.raises((FormatError, ConfigError), match=told):
        ck.get("one", library, there)
    assert not there.exists()


def test_another_file_of_that_name_is_left_alone(library, tmp_path):
    (tmp_path / "one.chakra").write_text("mine")
    with pytest.raises(ConfigError, match="is another file"):
        ck.get("one", library, tmp_path)
    with pytest.raises(ConfigError, match="has no bundle 'two'; it has one"):
        ck.get("two", library, tmp_path)


@pytest.mark.slow
def test_simulators_are_scored_against_the_timed_step(library):
    result = ck.score(library, [sys.executable, "-c", "print(1500000)"])
    ours, rate, theirs = result.scores
    assert (ours.simulator, ours.step_ns, ours.error) == ("chakrakit", 1e6, pytest.approx(-0.2))
    peak = load_machine("dgx-h200").device(0).peak["bf16"]
    assert rate.step_ns == pytest.approx(3e9 / peak * 1e9)
    assert theirs.error == pytest.approx(0.2)
    assert result.failed == {"chakrakit": 0, "constant rate": 0, theirs.simulator: 0}
    wrong = ck.score(library, [sys.executable, "-c", "print('soon')"]).scores[2]
    assert "printed no step" in wrong.failed
    dead = ck.score(library, [sys.executable, "-c", "raise SystemExit('no licence')"]).scores[2]
    assert "no licence" in dead.failed


LIKE_ASTRA = """\
import sys
from chakrakit.commands import main
said = dict(word.split("=", 1) for word in sys.argv[1:])
files = [said[f"--{name}-configuration"] for name in ("system", "network", "remote-memory")]
groups = said.get("--comm-group-configuration")
more = ["--groups", groups] if groups else []
main(["simulate", said["--workload-configuration"], "--astra", *files, *more, "--astra-log"])
"""


def like_astra(folder, text=LIKE_ASTRA):
    """A program that takes ASTRA-sim's options and files, and prints its lines: ours in its place."""
    program = folder / "astra"
    program.write_text(f"#!{sys.executable}\n{text}")
    program.chmod(0o755)
    return str(program)


def two_ranks(folder):
    """A GEMM of 100 µs and an all-reduce of 4 MB, on two devices of a node."""
    builder = ck.TraceBuilder()
    gemm = builder.comp("gemm", duration_ns=100_000, stream=7)
    builder.collective("sum", ck.CollectiveType.ALL_REDUCE, 4_000_000, deps=[gemm])
    run = ck.simulate(ck.TraceSet.of(builder, ranks=2), "dgx-h100").run()
    ck.bundle(run, folder / "two.chakra")
    write_index(folder, [entry_of(folder / "two.chakra", machine="dgx-h100", step_ns=120_000)])


@pytest.mark.slow
def test_astra_sim_s_program_gets_files_it_reads_and_its_cycles_are_scored(tmp_path, library):
    scores = ck.score(library, astra=like_astra(tmp_path)).scores
    assert [s.step_ns for s in scores if s.simulator == "ASTRA-sim"] == [1e6]
    (tmp_path / "more").mkdir()
    two_ranks(tmp_path / "more")
    (one,) = [
        s
        for s in ck.score(tmp_path / "more", astra=like_astra(tmp_path)).scores
        if s.simulator == "ASTRA-sim"
    ]
    # Two rounds of half the data at 450 GB/s, and a link's latency twice in each; then what it rounds.
    assert one.step_ns == pytest.approx(100_000 + 2 * (2_000_000 / 450 + 2 * 300), rel=0.02)


@pytest.mark.slow
def test_a_program_that_does_not_finish_is_said(tmp_path, library):
    broken = like_astra(tmp_path, "raise SystemExit('no such topology')")
    (one,) = [s for s in ck.score(library, astra=broken).scores if s.simulator == "ASTRA-sim"]
    assert "finished 0 of 1 ranks (exit 1): no such topology" in one.failed
