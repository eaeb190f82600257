"""What reading, checking, converting and asking give for recordings, and for traces that are damaged."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

import pytest
from click.testing import Result

import chakrakit as ck
from support.commands import chakra, data, succeeded
from support.damaged import compare_outcomes, damages
from support.kept_results import compare, of_set
from support.recorded import linked

RECORDINGS = ["cnn_ddp_2", "gpt_pp_2", "two_streams", "moe_tiny"]
QUERIES = (
    "SELECT type, count(*), sum(duration_ns) FROM nodes GROUP BY 1 ORDER BY 1",
    "SELECT kind, count(*) FROM edges GROUP BY 1 ORDER BY 1",
    "SELECT * FROM collectives ORDER BY ALL LIMIT 12",
    "SELECT * FROM ranks ORDER BY ALL",
)


def described(path: Path) -> dict[str, object]:
    """What is said of a trace."""
    figures = {"info": data("info", path), "validate": chakra("validate", path, "--json").stdout}
    return {name: _without_path(value, path) for name, value in figures.items()}


def asked(path: Path) -> dict[str, object]:
    """What is answered about a trace."""
    answers = {q: chakra("query", path, q, "--json").stdout for q in QUERIES}
    return {query: _without_path(value, path) for query, value in answers.items()}


def _without_path(value: object, path: Path) -> object:
    if isinstance(value, dict):
        return {k: _without_path(v, path) for k, v in value.items()}
    return value.replace(str(path.parent), "") if isinstance(value, str) else value


@pytest.mark.parametrize("name", RECORDINGS)
def test_kept_descriptions_of_recordings(name: str, tmp_path: Path) -> None:
    ck.write(linked(name), tmp_path / "run")
    compare(f"described-{name}", described(tmp_path / "run"))


@pytest.mark.parametrize("name", RECORDINGS)
def test_kept_answers_about_recordings(name: str, tmp_path: Path) -> None:
    pytest.importorskip("duckdb")
    ck.write(linked(name), tmp_path / "run")
    compare(f"asked-{name}", asked(tmp_path / "run"))


FILES = {"et": "run.et", "json": "run.json", "feeder-json": "run.feeder.json"}


@damages(40, 500)
@pytest.mark.parametrize("name", FILES)
def test_kept_outcomes_of_damaged_files(name: str, numbers: range, tmp_path: Path) -> None:
    """A rank's file in every form that is text or bytes of our own: what is read, said, found and mended."""

    def outcome(folder: Path) -> object:
        path = folder / FILES[name]
        mended = chakra("validate", path, "--fix", "-o", folder.parent / "mended.et", "--json")
        return of_set(ck.read(path)) | described(path) | {"mended": mended.stdout + mended.stderr}

    compare_outcomes(name, tmp_path, outcome, numbers)


@damages(20, 100)
def test_kept_outcomes_of_damaged_cards(numbers: range, tmp_path: Path) -> None:
    """Cards beside a run: what the bundle says, or how the card is refused."""

    def outcome(folder: Path) -> object:
        packed = folder.parent / "run.chakra"
        card = folder / "card.yaml"
        done = chakra("bundle", folder / "run", "--card", card, "-o", packed, "--json")
        if done.exit_code != 0:
            return done.stderr
        return {k: v for k, v in json.loads(done.stdout)["card"].items() if k != "versions"}

    compare_outcomes("card", tmp_path, outcome, numbers)


@pytest.mark.parametrize("form", ["w.N.et", "w.N.et.gz", "w.N.json", "w.N.parquet"])
def test_kept_traces_of_every_form(form: str, tmp_path: Path) -> None:
    traces = linked("gpt_pp_2")
    ck.write(traces, tmp_path / form)
    back = ck.read(tmp_path / "w") if form != "w.N.parquet" else ck.read(tmp_path)
    compare(f"converted-{form.removeprefix('w.N.')}", of_set(back))


def small() -> ck.TraceSet:
    """Two ranks that compute, sum and send, with what other tools write: types, shapes, times and groups."""
    builders = [ck.TraceBuilder(), ck.TraceBuilder()]
    for rank, t in enumerate(builders):
        first = t.comp(
            "load", num_ops=100, tensor_size=64, stream=0, start_time_ns=0, duration_ns=5
        )
        work = t.comp("mm", num_ops=4000, dtype="bf16", op_type="matmul", stream=0, deps=[first])
        total = t.collective("sum", ck.CollectiveType.ALL_REDUCE, 4096, stream=1, deps=[work])
        if rank == 0:
            t.send("out", 0, 1, 512, tag=3, deps=[total])
        else:
            t.recv("in", 0, 1, 512, tag=3, deps=[total])
        t.comp("end", num_ops=1, stream=0, deps=[work, total])
    return ck.TraceSet.of(builders)


def _said(done: Result, path: Path) -> object:
    """The findings, or the refusal of a file that is no trace."""
    text = done.stdout.replace(str(path.parent), "")
    return json.loads(text) if text else done.stderr.replace(str(path.parent), "")


@pytest.mark.parametrize("seed", range(12))
def test_kept_findings_in_damaged_traces(seed: int, tmp_path: Path) -> None:
    """Numbers and words of a trace in JSON changed at random: what is found, and what is repaired."""
    draw = random.Random(seed)
    ck.write(small(), tmp_path / "w.N.json")
    figures = {}
    for number in range(10):
        for rank in (0, 1):
            text = (tmp_path / f"w.{rank}.json").read_text()
            for _ in range(2):
                places = [m.span() for m in re.finditer(r'(?<=[:\[,])\s*"?\d+"?(?=[,}\]])', text)]
                start, end = draw.choice(places)
                value = draw.choice(("0", "1", "7", '"5"', "-1", "1000000000"))
                text = text[:start] + value + text[end:]
            (tmp_path / f"d{number}.{rank}.json").write_text(text)
        path = tmp_path / f"d{number}"
        words = ("validate", path, "--fix", "-o", tmp_path / f"f{number}.N.et", "--json")
        figures[str(number)] = _said(chakra(*words), path)
    compare(f"damaged-{seed}", figures)


def test_kept_exports(tmp_path: Path) -> None:
    path = tmp_path / "run"
    ck.write(linked("two_streams"), path)
    figures = {}
    for name in ("part.dot", "part.graphml", "line.json"):
        succeeded("export", path, tmp_path / name)
        figures[name] = (tmp_path / name).read_text()
    compare("exported", figures)
