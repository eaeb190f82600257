"""Commands open raw recordings themselves, and keep what they linked by its content."""

from __future__ import annotations

import gzip
import json
import os
import shutil

import pytest

import chakrakit as ck
from chakrakit.commands import opening
from chakrakit.commands.opening import digest_of, opened
from support.commands import chakra, data, succeeded
from support.paths import DATA
from support.recording import Recording


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    """Nothing is kept from one test to the next."""
    kept = tmp_path / "temporary"
    kept.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(kept))


def kineto(device=7) -> bytes:
    """One rank: an operator with a kernel, and an all-reduce of a serving engine."""
    made = Recording()
    made.op("aten::mm", 0, 20)
    made.launch(2, start=10, dur=40, corr=1, name="gemm", stream=device)
    made.op("_C_custom_ar::all_reduce", 30, 20)
    made.launch(32, start=60, dur=5, corr=2, name="vllm::cross_device_reduce_1stage<half, 2>")
    return made.kineto_json().encode()


def test_every_command_that_looks_at_a_run_opens_a_recording(tmp_path):
    file = tmp_path / "worker0.pt.trace.json.gz"
    file.write_bytes(gzip.compress(kineto()))
    assert data("info", file)["communication"][0]["type"] == "ALL_REDUCE"
    assert data("analyze", file)["ranks"][0]["breakdown"]["exposed_comm_ns"] == 5_000
    assert data("query", file, "SELECT count(*) FROM nodes WHERE type = 'COMM_COLL_NODE'")[
        "rows"
    ] == [[1]]
    assert data("compare", file, file)["step"]["a_ns"] > 0
    succeeded("report", file, "-o", tmp_path / "page.html")
    assert "worker0.pt.trace.json.gz" in (tmp_path / "page.html").read_text()


def test_the_second_time_nothing_is_linked_and_a_changed_file_is_another(tmp_path):
    file = tmp_path / "trace.json"
    file.write_bytes(kineto())
    said = [chakra("info", file).stderr for _ in range(2)]
    assert "linked and kept in" in said[0]
    assert "linked before" in said[1]
    before = opened(file)
    file.write_bytes(kineto(device=9))
    assert opened(file) != before


def test_a_card_beside_a_single_recording_counts_as_part_of_it(tmp_path):
    file = tmp_path / "trace.json"
    file.write_bytes(kineto())
    places = [opened(file)]
    for step_ms in (1.5, 2.5):
        (tmp_path / "card.json").write_text(json.dumps({"step_ms_unprofiled": step_ms}))
        places.append(opened(file))
    assert len(set(places)) == 3
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert opened(shutil.copy(file, elsewhere)) == places[0]


def test_a_digest_depends_on_names_and_on_where_files_end(tmp_path):
    def digest(*texts):
        files = [tmp_path / f"rank{i}" for i in range(len(texts))]
        for file, text in zip(files, texts, strict=True):
            file.write_text(text)
        return digest_of(files)

    assert len({digest("ab", "c"), digest("a", "bc"), digest("abc"), digest("ab", "c", "")}) == 4


def test_a_folder_as_an_engine_names_its_ranks(tmp_path):
    """Two by two: stages outside, tensor parallelism inside; the content does not say the rank."""
    for stage in (0, 1):
        for place in (0, 1):
            name = f"169.5-TP-{place}-DP-0-PP-{stage}-EP-0.trace.json.gz"
            (tmp_path / name).write_bytes(gzip.compress(kineto(device=10 * stage + place)))
    (tmp_path / "merged-169.5.trace.json.gz").write_bytes(gzip.compress(kineto()))
    streams = data(
        "query", tmp_path, "SELECT rank, stream FROM nodes WHERE name = 'gemm' ORDER BY rank"
    )
    assert streams["rows"] == [[0, 0], [1, 1], [2, 10], [3, 11]]


def test_two_stages_of_one_rank_are_two_recordings(tmp_path):
    for stage in ("DECODE", "EXTEND"):
        (tmp_path / f"1-TP-0-{stage}.trace.json").write_bytes(kineto())
    assert (
        "stages DECODE and EXTEND: link the files of one stage" in chakra("info", tmp_path).stderr
    )


def test_folders_of_a_framework_with_profiles_and_execution_traces_apart(tmp_path):
    for rank in (0, 1):
        made = Recording()
        made.op("aten::mm", 0, 20)
        made.launch(2, start=10, dur=40, corr=1)
        for folder, text in (
            ("torch_profile", made.kineto_json()),
            ("chakra", made.observer_json()),
        ):
            (tmp_path / folder).mkdir(exist_ok=True)
            packed = gzip.compress(text.replace('"pid": 9', f'"pid": {90 + rank}').encode())
            (tmp_path / folder / f"rank-{rank}.json.gz").write_bytes(packed)
    assert data("info", tmp_path)["ranks"] == 2


@pytest.mark.slow
def test_a_folder_with_both_files_of_a_rank_and_its_card_is_linked_as_it_lies(tmp_path):
    folder = tmp_path / "recorded"
    shutil.copytree(DATA / "pytorch" / "mlp_ddp_nccl_1", folder)
    (folder / "card.json").write_text('{"step_ms": 1.5}')
    assert data("analyze", folder)["ranks"][0]["breakdown"]["compute_ns"] > 0
    assert "linked before" in chakra("info", folder).stderr


def test_a_run_or_a_trace_is_left_where_it_is(tmp_path):
    (tmp_path / "trace.json").write_bytes(kineto())
    succeeded("link", tmp_path / "trace.json", "-o", tmp_path / "run")
    assert opened(tmp_path / "run") == str(tmp_path / "run")
    assert opened("-") == "-"
    assert opened(tmp_path / "nothing") == str(tmp_path / "nothing")


def test_a_folder_of_somebody_else_is_not_used(tmp_path):
    (tmp_path / "trace.json").write_bytes(kineto())
    kept = tmp_path / "temporary" / f"chakrakit-opened-{os.getuid()}"
    kept.mkdir(mode=0o777)
    kept.chmod(0o777)
    assert "not a private folder of yours" in chakra("info", tmp_path / "trace.json").stderr


def test_what_looks_like_communication_is_said_in_the_analysis(tmp_path):
    file = tmp_path / "trace.json"
    file.write_bytes(
        kineto().replace(b"vllm::cross_device_reduce_1stage<half, 2>", b"acme_allreduce")
    )
    notes = data("analyze", file)["notes"]
    assert any("'acme_allreduce' (1 times) looks like communication" in note for note in notes)
    succeeded("link", file, "-o", tmp_path / "run", "--comm-pattern", "^acme=all-reduce")
    assert (
        json.loads(succeeded("info", tmp_path / "run", "--json"))["communication"][0]["count"] == 1
    )


def test_a_run_that_is_removed_is_gone_at_once(tmp_path, monkeypatch):
    """Otherwise a command that makes it again at the same time would lose some of its files."""
    folder = tmp_path / "opened"
    for number in range(opening.MOST_KEPT + 2):
        (folder / f"r{number}").mkdir(parents=True)
        (folder / f"r{number}" / "card.json").write_text("{}")
        os.utime(folder / f"r{number}", (number, number))
    left = []
    monkeypatch.setattr(
        shutil, "rmtree", lambda run, **_: left.append({f.name for f in folder.iterdir()})
    )
    opening._remove_oldest(folder)
    assert "r0" not in left[0]
    assert len(list(folder.iterdir())) == opening.MOST_KEPT


def test_removing_the_oldest_makes_no_other_run_newer(tmp_path):
    """Otherwise a run that was just made would be the next to go, while a comparison still needs it."""
    folder = tmp_path / "opened"
    for number in range(opening.MOST_KEPT):
        run = folder / f"r{number}"
        run.mkdir(parents=True)
        (run / "card.json").write_text("{}")
        (folder / f"{number}.seen").write_text(f"r{number}\na recording\n")
        os.utime(run, (number, number))
    opening._remove_oldest(folder)
    assert [(folder / f"r{n}").stat().st_mtime for n in (0, 7, 31)] == [0, 7, 31]


def test_a_linked_trace_in_json_is_a_trace_and_no_recording(tmp_path):
    """Its header has the attribute `schema` of the recording, and a reader may have laid it out anew."""
    builder = ck.TraceBuilder(ck.Metadata.of("1.0.0", schema="1.1.1-chakra.0.0.4"))
    builder.comp("aten::mm", duration_ns=10)
    ck.write(builder.build(), tmp_path / "t.json")
    document = json.loads((tmp_path / "t.json").read_text())
    (tmp_path / "indented.json").write_text(json.dumps(document, indent=1))
    for name in ("t.json", "indented.json"):
        assert ck.info(str(tmp_path / name)).attributes == {"duration_ns": 1, "is_cpu_op": 1}
