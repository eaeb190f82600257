"""What is not there is refused, and the message names what is: each case is a command as typed."""

import io
import json
import tarfile
from importlib.util import find_spec

import pytest
from click.testing import CliRunner

from chakrakit import Binding, CollectiveType, Groups, TraceBuilder, TraceSet, read, write
from chakrakit.commands import group, main


@pytest.fixture(scope="module")
def generated(tmp_path_factory):
    """A small plan, generated and simulated: `w` and `run`."""
    folder = tmp_path_factory.mktemp("generated")
    plan = "--model llama-3.1-8b --layers 2 --tp 2 --dp 2 --seq 512 -o"
    for command in (
        f"generate {plan} {folder / 'w'}",
        f"simulate {folder / 'w'} --machine dgx-h100 -o {folder / 'run'}",
    ):
        main(command.split(), standalone_mode=False)
    return folder


def refused(capsys, *words):
    """What a command that must fail says."""
    with pytest.raises(SystemExit) as stop:
        main([str(w) for w in words])
    assert stop.value.code == 2
    return capsys.readouterr().err


def done(*words):
    result = CliRunner().invoke(group, [str(w) for w in words], catch_exceptions=False)
    assert result.exit_code == 0
    return result.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("simulate {w} --machine dgx-h100 --straggler 9=2", "no rank 9; there are 0, 1, 2, 3"),
        ("simulate {w} --machine dgx-h100 --fault device:9@0=0.5", "no rank 9; there are 0, 1"),
        ("simulate {w} --machine dgx-h100 --fault link:0-x@0=0.5", "no vertex 'x'"),
        ("simulate {w} --machine dgxh100", "did you mean 'dgx-h100'"),
        ("simulate {w} --machine dgx-h100 --compute measured", "--compute auto"),
        ("machines dgxh100", "did you mean 'dgx-h100'"),
        ("analyze {run} --faster computee=2", "did you mean 'compute'"),
        ("analyze {run} --faster group:77=2", "matches no node"),
        ("analyze {run} --ranks 9", "no rank 9; there are 0, 1, 2, 3"),
        ("calibrate {w} -o {w}-profile.json", "nothing to fit"),
        ("convert {w} {w}.csv", "cannot be written as .csv"),
        ("convert {w} {w}.tar.gz", "cannot be written as .tar.gz"),
        ("export {run} {run}.svg", ".pftrace or .json"),
        ("generate --model llama-3.1-8 --dp 2", "did you mean 'llama3.1-8b'"),
        ("transform {w} --pass selct{{ranks=[0]}} -o {w}-x", "did you mean 'select'"),
        ("simulat {w}", "did you mean 'simulate'"),
        ("simulate {w} --machine dgx-h100 --algorithm all-reduc=ring", "mean 'all-reduce'"),
        ("simulate {w} --machine dgx-h100 --algorithm all-reduce=rng", "mean 'ring'"),
        ("simulate {w} --machine dgx-h100 --compute rooflin", "did you mean 'roofline'"),
        ("compare {run} {run} --fail-if memry>5%", "no metric 'memry'; did you mean 'memory'"),
        ("report {run} --faster computee=2 -o {run}.html", "did you mean 'compute'"),
        ("analyze {run} --faster module:zz=2", "matches no node; there are compute"),
        ("export {w} {w}.dot --around 99999999", "no node has id 99999999; the nearest are"),
        ("export {w} {w}.dot --type COMP_NOD", "did you mean 'COMP_NODE'"),
        ("export {w} {w}.dot --name optimzer", "did you mean 'optimizer'"),
        ("export {w} {w}.dot --rank 9", "no rank 9; there are 0, 1, 2, 3"),
        ("models llama-3.1-8", "did you mean 'llama3.1-8b'"),
        ("transform {w} --pass select{{ranks=[9]}} -o {w}-x", "no rank 9"),
        ("transform {w} --pass select{{steps=[5]}} -o {w}-x", "no node has 5; there are 0"),
        ("transform {w} --pass select{{groups=[zz]}} -o {w}-x", "no 'zz'; there are 1, 2"),
        ("transform {w} --pass select{{rank=[0]}} -o {w}-x", "did you mean 'ranks'"),
        ("transform {w} --pass edit{{classes=[gem],scale=2}} -o {w}-x", "did you mean 'gemm'"),
        ("transform {w} --pass edit{{names=[optimzer],scale=2}} -o {w}-x", "mean 'optimizer'"),
        ("transform {w} --pass recost{{machine=dgxh100}} -o {w}-x", "did you mean 'dgx-h100'"),
        ("transform {w} --pass comm{{action=compres}} -o {w}-x", "did you mean 'compress'"),
        ("transform {w} --pass select{{phases=[forwrd]}} -o {w}-x", "did you mean 'forward'"),
        ("transform {w} --pass select{{modules=[zz]}} -o {w}-x", "no node has 'zz'; there are"),
        ("transform {w} --pass edit{{nodes=[9999999],scale=2}} -o {w}-x", "no node has 9999999"),
        ("transform {w} --pass edit{{on=hst,scale=2}} -o {w}-x", "did you mean 'host'"),
        ("transform {w} --pass scale-ranks{{ranks=8,over=zz}} -o {w}-x", "no program uses a group"),
        ("simulate {w} --machine dgx-h100 --groups g.json", "--groups is for --astra"),
        ("simulate {w} --machine dgx-h100 --queues 3", "--queues is for --astra"),
        ("simulate {w} --astra s n m --seed 3", "--seed is for --machine"),
        ("simulate {w} --machine dgx-h100 --placement {w}-none", "cannot be read"),
        ("validate {w} --engine sparc", "no engine 'sparc'; there are local, ray, dask"),
        ("query {w} SELECT(nme)FROM(nodes)", "columns of nodes: rank, row, id, name"),
        pytest.param(
            "replay {run} --step 99",
            "no such step of rank 0; its steps: 0",
            marks=pytest.mark.skipif(find_spec("torch") is None, reason="replay needs PyTorch"),
        ),
        (
            "collective all-reduc --machine dgx-h200 --members 8 --sizes 1KiB",
            "did you mean 'all-reduce'",
        ),
        (
            "collective all-reduce --members 8 --sizes 1KiB --machine dgx-h200 --dtype bf17",
            "did you mean 'bf16'",
        ),
        ("search --model gpt3-125m --gpus 8 --machine dgx-h100 --schedule 1f1", "mean '1f1b'"),
        ("search --model gpt3-125m --gpus 8 --machine dgx-h100 --data zer1", "mean 'zero1'"),
        ("search --model gpt3-125m --gpus 8 --machine dgx-h100 --recompute ful", "mean 'full'"),
        ("search --model gpt3-125m --gpus 8 --machine dgx-h100 --pools apart", "is for --serve"),
        ("serve --model gpt3-125 --machine dgx-h100 --requests x", "did you mean 'gpt3-125m'"),
        (
            "serve --model gpt3-125m --machine dgx-h100 --requests poisson{{rat=1}}",
            "did you mean 'rate'",
        ),
    ],
)
def test_a_name_that_is_not_there(generated, words, said, capsys):
    given = words.format(w=generated / "w", run=generated / "run").split()
    assert said.lower() in refused(capsys, *given).lower()
    assert not (generated / "w.csv").exists()


def test_more_nodes_are_asked_for_by_number(generated, tmp_path, capsys):
    done("generate", "--model", "llama-3.1-8b", "--layers", "2", "--dp", "64", "-o", tmp_path / "w")
    said = refused(capsys, "simulate", tmp_path / "w", "--machine", "dgx-h100:2")
    assert "as in dgx-h100:8" in said


def test_a_plan_without_a_batch_gets_one_micro_batch_for_every_replica():
    found = json.loads(
        done("generate", "--model", "llama-3.1-8b", "--dp", "8", "--tp", "8", "--json")
    )
    assert found["micro_batches"] == 1


def test_a_batch_that_does_not_divide_offers_only_what_helps(capsys):
    said = refused(
        capsys, "generate", "--model", "llama-3.1-8b", "--dp", "8", "--global-batch", "3"
    )
    assert "use global_batch 8 or 16" in said
    assert "micro_batch 1" not in said.partition("use")[2]


def test_an_unknown_column_is_not_zeros():
    builder = TraceBuilder()
    builder.comp("a", duration_ns=1)
    trace = builder.build()
    assert trace.column("comm_size", 0).tolist() == [0]  # known, and nobody has it
    with pytest.raises(Exception, match="did you mean 'comm_size'"):
        trace.column("comm_sise", 0)


@pytest.fixture
def tarred():
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("a"))
    return data.getvalue()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"# a shopping list\nmilk\n", "plain text, not a trace"),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "a PNG image, not a trace"),
        (b"[1, 2, 3]", "JSON, but not a trace"),
        ("tar", "a tar archive, not a trace"),
    ],
)
def test_a_file_that_is_something_else(content, said, tarred, tmp_path, capsys):
    file = tmp_path / "x.et"
    file.write_bytes(tarred if content == "tar" else content)
    assert said in refused(capsys, "info", file)


def test_a_directory_of_a_recording_of_nothing(tmp_path, capsys):
    """Recordings are linked when they are opened, and this one has nothing to link."""
    recording = tmp_path / "kineto_0.json"
    recording.write_text('{"schemaVersion": 1, "traceEvents": []}')
    said = refused(capsys, "info", tmp_path)
    assert f"{recording}: holds no event" in said
    assert "record at least one step" in said


# --- one cost source ----------------------------------------------------------------------------


def _simulated(*words):
    return json.loads(done("simulate", *words, "--machine", "dgx-h100", "--json"))


def test_generated_work_takes_time_without_being_asked(generated):
    """The step takes as long as its operations by the machine's profile; nothing uses more than the peak."""
    found, asked = (_simulated(generated / "w", *more) for more in ((), ("--compute", "h100")))
    assert found["makespan_ns"] == asked["makespan_ns"]
    assert found["mfu"] == asked["mfu"] < 1
    assert found["rung"] == asked["rung"] == "carried profile h200"
    sources = {share["source"] for share in found["compute_sources"]}
    assert sources <= {"profile", "extrapolated"}
    operations = read(generated / "w").trace(0).has("op_type").sum()
    assert sum(share["nodes"] for share in found["compute_sources"]) == 4 * operations


def _pair(tmp_path, *nodes):
    """Two ranks that run these operations, one after another, and an all-reduce."""
    t, last = TraceBuilder(), []
    for name, settings in nodes:
        last = [t.comp(name, deps=last, **settings)]
    t.collective("c", CollectiveType.ALL_REDUCE, 10**6, deps=last)
    traces = TraceSet([t.build()], {0: Binding(0), 1: Binding(0)}, Groups({"": range(2)}))
    tmp_path.mkdir(exist_ok=True)
    write(traces, tmp_path / "w")
    return tmp_path / "w"


def test_each_operation_has_its_own_source(tmp_path):
    measured = {"duration_ns": 30_000, "num_ops": 10}
    path = _pair(tmp_path, ("timed", measured), ("sized", {"num_ops": 989_400_000_000}))
    shares = {s["source"]: s for s in _simulated(path)["compute_sources"]}
    assert shares["measured"]["time_ns"] == 2 * 30_000
    assert shares["extrapolated"]["nodes"] == 2
    assert sum(s["time_share"] for s in shares.values()) == pytest.approx(1)


def test_the_share_of_time_that_nobody_measured_is_told(tmp_path):
    """Beside 30 us that were measured, FLOPs of no known operation are extrapolated, and not sure."""
    timed, sized = {"duration_ns": 30_000, "num_ops": 10}, {"num_ops": 23_151_960_000}
    found = _simulated(_pair(tmp_path / "a", ("timed", timed), ("sized", sized)))
    shares = {s["source"]: s["time_share"] for s in found["compute_sources"]}
    assert found["extrapolated_share"] == pytest.approx(shares["extrapolated"])
    assert shares["measured"] == pytest.approx(1 - found["extrapolated_share"])
    assert found["compute_error"] >= found["extrapolated_share"] * 0.5
    found = _simulated(_pair(tmp_path / "b", ("timed", timed)))
    assert (found["extrapolated_share"], found["compute_error"]) == (0, 0)


def test_operations_of_which_nothing_is_known_are_refused(tmp_path, capsys):
    path = _pair(tmp_path, ("mystery", {}))
    said = refused(capsys, "simulate", path, "--machine", "dgx-h100")
    assert "nothing says how long the 2 operations take" in said


def test_more_than_the_peak_is_explained_and_not_printed(tmp_path):
    path = _pair(tmp_path, ("impossible", {"duration_ns": 1000, "num_ops": 10**15}))
    found = _simulated(path)
    assert found["mfu"] is None
    assert "faster device" in found["notes"][0]


# --- reading on a narrow terminal ---------------------------------------------------------------


def test_a_wide_row_is_shown_as_a_record(generated):
    said = done("query", generated / "w", "SELECT * FROM nodes")
    assert "row 0:" in said
    assert "first 10 rows" in said
    assert len(said.splitlines()) < 400


def test_numbers_are_never_cut(monkeypatch):
    from chakrakit.commands import output

    monkeypatch.setenv("COLUMNS", "40")
    shown = io.StringIO()
    monkeypatch.setattr(output.sys, "stdout", shown)
    monkeypatch.setattr(shown, "isatty", lambda: True, raising=False)
    rows = [("a long name of an operator " * 3, *(["123,456,789.0"] * 6))]
    output.print_table(("name", *(f"count {i}" for i in range(6))), rows)
    assert shown.getvalue().count("123,456,789.0") == 6


def test_control_characters_are_shown_not_sent():
    from chakrakit.commands.output import clean

    assert clean("a\x1b[31mred") == "a\\x1b[31mred"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("convert w", "Missing argument 'OUT'. `out.et`"),
        ("convert w", "For example: chakra convert trace.0.et trace.parquet"),
        (
            "convert w -o w.json",
            "No such option '-o'. OUT is given without it. For example: chakra",
        ),
        ("export run -o x.dot", "For example: chakra export run run.pftrace --rank 0"),
        (
            "calibrate run",
            "Missing option '-o' / '--output'. Where the profile, model or constants",
        ),
        ("get", "a library is a folder with library.json, or its URL"),
    ],
)
def test_what_is_missing_is_explained_with_an_example(words, said, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert said in " ".join(refused(capsys, *words.split()).split())
