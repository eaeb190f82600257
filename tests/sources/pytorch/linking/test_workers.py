"""Many ranks linked on workers: the same run, one trace in memory at a time, nothing left behind."""

from __future__ import annotations

import gc
from pathlib import Path

import msgspec
import pytest

from chakrakit import Run
from chakrakit.errors import ChakraError
from chakrakit.parallel import Workers
from chakrakit.sources.pytorch.linking import LinkOptions, link
from support import paths
from support.engines import ENGINES

DATA = paths.DATA / "pytorch"


def same(a: Run, b: Run) -> bool:
    return (
        a.bindings == b.bindings
        and a.groups == b.groups
        and a.card == b.card
        and all(a.trace(r).table.equals(b.trace(r).table) for r in a.ranks)
    )


@pytest.mark.parametrize("name", ["gpt_fsdp_tp_4", "gpt_pp_2", "cnn_ddp_2"])
def test_the_run_and_the_report_are_the_same(name: str, pickled: Workers, tmp_path: Path) -> None:
    run, report = link([DATA / name])
    spread, told = link([DATA / name], LinkOptions(engine="local", spool=tmp_path))
    assert same(run, spread)
    assert msgspec.json.encode(report) == msgspec.json.encode(told)


@pytest.mark.slow
def test_what_waits_on_disk_goes_with_the_run(pickled: Workers, tmp_path: Path) -> None:
    run, _ = link([DATA / "gpt_pp_2"], LinkOptions(engine="local", spool=tmp_path))
    assert len(list(tmp_path.iterdir())) == 1
    assert len(run.trace(0))
    del run
    gc.collect()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_an_error_names_the_file_and_leaves_nothing(pickled: Workers, tmp_path: Path) -> None:
    for name in ("et_0.json.gz", "kineto_1.json.gz"):
        (tmp_path / name).write_bytes((DATA / "gpt_pp_2" / name).read_bytes())
    (tmp_path / "spool").mkdir()
    with pytest.raises(ChakraError, match="et_0"):
        link(
            [tmp_path / "et_0.json.gz", tmp_path / "kineto_1.json.gz"],
            LinkOptions(engine="local", spool=tmp_path / "spool"),
        )
    gc.collect()
    assert list((tmp_path / "spool").iterdir()) == []


@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_gives_the_same(engine: str, tmp_path: Path) -> None:
    run, _ = link([DATA / "gpt_pp_2"])
    spread, _ = link([DATA / "gpt_pp_2"], LinkOptions(engine=engine, jobs=2, spool=tmp_path))
    assert same(run, spread)
