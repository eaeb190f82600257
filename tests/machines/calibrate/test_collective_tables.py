"""Library constants from tables and logs of collectives, and what is refused."""

import json

import pytest

import chakrakit as ck
from chakrakit.errors import ChakraError

SIZES = [1 << k for k in range(10, 30)]


def table(path, heads="collective,members,bytes,time_us", scale=1.0, sizes=SIZES):
    """What dgx-h100 takes, as if measured."""
    lines = [heads]
    for name in ("all_reduce", "all_gather", "alltoall"):
        for n in (2, 8):
            for row in ck.collective(name, "dgx-h100", n, sizes).rows:
                lines.append(f"{name},{n},{row.bytes},{row.time_us * scale}")
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.first(1)
@pytest.mark.parametrize(("unit", "scale"), [("us", 1.0), ("ms", 1e-3), ("s", 1e-6), ("ns", 1e3)])
def test_constants_come_back_from_a_table_in_any_unit(tmp_path, unit, scale):
    source = table(tmp_path / "t.csv", f"op,gpus,bytes,latency_{unit}", scale)
    out = tmp_path / "library.json"
    report = ck.calibrate(source, output=out, collectives=True, machine="dgx-h200")
    assert all(r.median_error < 0.03 for r in report.collectives)
    assert json.loads(out.read_text())["launch_us"] == pytest.approx(
        ck.load_machine("dgx-h100").library.launch_us, rel=0.2
    )


def test_logs_of_nccl_tests_give_constants_too(tmp_path):
    logs = []
    for name in ("all_reduce", "all_gather", "alltoall"):
        for n in (2, 8):
            lines = [f"# {name}_perf", *(f"#  Rank {r} Pid 1 on host device {r}" for r in range(n))]
            for row in ck.collective(name, "dgx-h100", n, SIZES).rows:
                lines.append(
                    f" {row.bytes} {row.bytes // 2} half sum -1 {row.time_us:.3f} 1.0 1.0 0"
                )
            logs.append(tmp_path / f"{name}_{n}.log")
            logs[-1].write_text("\n".join(lines) + "\n")
    out = tmp_path / "library.json"
    report = ck.calibrate(*logs, output=out, nccl_tests=True, machine="dgx-h200")
    assert all(r.median_error < 0.03 for r in report.collectives)


@pytest.mark.parametrize(
    ("heads", "line", "message"),
    [
        ("collective,members,bytes,time_fortnights", "all_reduce,2,1024,1", "no unit of time"),
        ("collective,members,bytes,time", "all_reduce,2,1024,1", "no unit of time"),
        (
            "collective,members,bytes,time_us,mood",
            "all_reduce,2,1024,1,good",
            "unknown column 'mood'",
        ),
        ("collective,members,bytes", "all_reduce,2,1024", "one column of times"),
        ("collective,bytes,time_us", "all_reduce,1024,1", "members or gpus or ranks"),
        ("collective,members,bytes,time_us", "all_reduce,2,1024,0", "a time of 0"),
        ("collective,members,bytes,time_us", "all_reduce,2,1024,-3", "a time of -3"),
        ("collective,members,bytes,time_us", "all_reduce,2,1024,", "a time of None"),
        ("collective,members,bytes,time_us", "all_reduce,1,1024,1", "members is 1"),
        ("collective,members,bytes,time_us", "all_reduce,2,0,1", "bytes is 0"),
        ("collective,members,bytes,time_us", "all_sort,2,1024,1", "'all_sort' is not a collective"),
        ("collective,members,bytes,time_us", "all_reduce,2,1024,1", "too few"),
    ],
)
def test_a_wrong_table_is_one_error_and_nothing_is_written(tmp_path, heads, line, message):
    source, out = tmp_path / "t.csv", tmp_path / "library.json"
    source.write_text(f"{heads}\n{line}\n")
    with pytest.raises(ChakraError, match=message):
        ck.calibrate(source, output=out, collectives=True, machine="dgx-h200")
    assert not out.exists()


def test_a_machine_is_needed(tmp_path):
    source, out = table(tmp_path / "t.csv"), tmp_path / "library.json"
    with pytest.raises(ChakraError, match="say which one"):
        ck.calibrate(source, output=out, collectives=True)
    assert not out.exists()


@pytest.mark.slow
def test_a_machine_without_a_library_gets_one(tmp_path):
    """The fit starts from rings over the machine's links, and ends at what the table says."""
    assert ck.load_machine("ethernet-100g:8").library is None
    source, out = table(tmp_path / "t.csv"), tmp_path / "library.json"
    report = ck.calibrate(source, output=out, collectives=True, machine="ethernet-100g:8")
    assert all(r.median_error < 0.05 for r in report.collectives)
    assert json.loads(out.read_text())["name"] == "calibrated"
