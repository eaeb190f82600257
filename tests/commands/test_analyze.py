"""`chakra analyze` for people and as data."""

from __future__ import annotations

from pathlib import Path

import chakrakit as ck
from support.commands import chakra, data, succeeded


def test_the_time_of_a_run_by_rank(runs: Path) -> None:
    """3 µs of product, then 2 µs of communication that nothing hides."""
    found = data("analyze", runs / "fast")
    assert found["span_ns"] == 5000
    assert [(r["rank"], r["breakdown"]["exposed_comm_ns"]) for r in found["ranks"]] == [
        (0, 2000),
        (1, 2000),
    ]


def test_what_a_faster_product_would_save(runs: Path) -> None:
    (gain,) = data("analyze", runs / "fast", "--faster", "compute=2")["what_if"]["gains"]
    assert (gain["what"], gain["saved_ns"]) == ("compute", 1500)


def test_the_first_screen_has_the_answers_and_what_to_ask_next(runs: Path) -> None:
    lines = succeeded("analyze", runs / "fast").splitlines()
    assert lines[0].startswith("How long does it take? 5.00 µs")
    assert lines[1].startswith("What is it bound by? device; twice as fast would save 30 %")
    assert lines[-1].startswith(f"more: chakra analyze {runs / 'fast'} --full")
    assert len(lines) <= 5


def test_groups_are_called_after_what_they_are_for(tmp_path: Path) -> None:
    """Two replicas on a network that takes all the time: their sums are those of dp, not of group 1."""
    (tmp_path / "slow.yaml").write_text(
        "name: slow\ndevice: h100-sxm\nnetwork: [{topology: switch, size: 2, bandwidth: 100 MB/s}]\n"
    )
    plan = {"dp": 2, "seq": 128, "global_batch": 2, "layers": 1}
    traces = ck.generate(model="gpt3-125m", **plan).traces
    run = ck.simulate(traces, str(tmp_path / "slow.yaml"), compute="roofline").run()
    ck.write(run, tmp_path / "run")
    lines = succeeded("analyze", tmp_path / "run").splitlines()
    assert "communication; twice as fast would save" in lines[1]
    assert "of the critical path is ALL_REDUCE dp" in lines[1]
    assert "no change was tried" in lines[-2]  # its machine is a file, which nothing names


def test_one_step_or_rank_alone(tmp_path: Path) -> None:
    traces = ck.generate(model="gpt3-125m", dp=2, seq=128, global_batch=2, layers=1, steps=2).traces
    run = ck.simulate(traces, "dgx-h100", compute="roofline").run()
    ck.write(run, tmp_path / "run")
    whole, second = (
        data("analyze", tmp_path / "run"),
        data("analyze", tmp_path / "run", "--step", 1),
    )
    assert [s["step"] for s in second["steps"]["steps"]] == [1, 1]
    assert second["span_ns"] == next(
        s["period_ns"] for s in whole["steps"]["steps"] if s["step"] == 1
    )
    alone = data("analyze", tmp_path / "run", "--rank", 1)
    assert [r["rank"] for r in alone["ranks"]] == [1]
    assert (
        "no node has 9; there are 0, 1" in chakra("analyze", tmp_path / "run", "--step", 9).stderr
    )


def test_people_get_tables_of_so_many_rows_with_equal_ranks_in_one(runs: Path) -> None:
    short = succeeded("analyze", runs / "fast", "--full", "--rows", "1")
    assert "0–1 (2)" in short
    assert len(short.splitlines()) < len(succeeded("analyze", runs / "fast", "--full").splitlines())


def test_one_section_alone_as_a_table_or_as_values(runs: Path) -> None:
    table = succeeded("analyze", runs / "fast", "--section", "time")
    assert "time by rank" in table
    assert "operators by " not in table
    head, *rows = succeeded("analyze", runs / "fast", "--section", "time", "--csv").splitlines()
    assert head.startswith("rank,compute,exposed communication,late ranks,bubble,host,data")
    assert [row.split(",")[0] for row in rows] == ["0", "1"]


def test_changes_are_tried_where_they_are_shown(tmp_path: Path) -> None:
    """Simulating other plans takes longer than all the rest, and most sections have no use for it."""
    plan = {"dp": 2, "seq": 128, "global_batch": 2, "layers": 1}
    traces = ck.generate(model="gpt3-125m", **plan).traces
    run = tmp_path / "run"
    ck.write(ck.simulate(traces, "dgx-h100", compute="roofline").run(), run)
    assert data("analyze", run)["advice"] != []
    assert data("analyze", run, "--section", "time")["advice"] == []
    assert data("analyze", run, "--no-advice")["advice"] == []


def test_a_section_that_is_not_there_is_refused_with_the_nearest(runs: Path) -> None:
    done = chakra("analyze", runs / "fast", "--section", "operator")
    assert (done.exit_code, "did you mean 'operators'?" in done.stderr) == (2, True)


def test_only_the_ranks_that_are_asked_for(runs: Path) -> None:
    assert [r["rank"] for r in data("analyze", runs / "fast", "--ranks", "1")["ranks"]] == [1]
    done = chakra("analyze", runs / "fast", "--ranks", "x")
    assert (done.exit_code, done.stderr[:7]) == (2, "error: ")


def run_of(compute_ns: int) -> ck.Run:
    """Two ranks that compute, and then meet for 2 µs."""
    t = ck.TraceBuilder()
    work = t.comp("gemm", duration_ns=compute_ns, start_ns=0)
    meet = {"start_ns": compute_ns, "duration_ns": 2000}
    t.collective("sync", ck.CollectiveType.ALL_REDUCE, 64, deps=[work], pg_name="tp", **meet)
    return ck.Run([t.build()] * 2, groups=ck.Groups({"tp": [0, 1]}))


def test_some_ranks_of_a_run() -> None:
    assert [r.rank for r in ck.analyze(run_of(3000), ranks=[1]).ranks] == [1]


def test_a_factor_says_what_it_would_save() -> None:
    (gain,) = ck.analyze(run_of(3000), faster={"compute": 3}).what_if.gains
    assert gain.saved_ns == 2000
