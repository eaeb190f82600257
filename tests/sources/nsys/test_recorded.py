"""A recording that Nsight Systems made and exported itself, opened as it lies."""

from __future__ import annotations

import tarfile
from pathlib import Path

import numpy as np
import pytest

import chakrakit as ck
from support.commands import data
from support.paths import DATA

FORMS = ("export.sqlite", "tables")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recorded")
    with tarfile.open(DATA / "nsys" / "training.tar.xz") as packed:
        packed.extractall(folder, filter="data")
    return folder


@pytest.mark.parametrize("form", FORMS)
def test_an_export_opens_with_its_totals(form: str, folder: Path) -> None:
    found = data("info", folder / form)
    assert (found["ranks"], found["nodes"]) == (1, 596)
    assert (found["edges"]["data"], found["edges"]["ctrl"]) == (178, 513)


@pytest.mark.parametrize("form", FORMS)
def test_all_work_of_the_device_is_there(form: str, folder: Path) -> None:
    """75 kernels, 6 copies and 3 fills, as Kineto counts in the same program; times of the file's rows."""
    trace = ck.link(folder / form).run.trace(0)
    device = trace.has("stream")
    names = np.array(trace.names.to_pylist(), object)[device]
    took = trace.column("duration_ns", 0)[device]
    moves = np.array([name.startswith(("Memcpy", "Memset")) for name in names])
    assert (len(names), moves.sum()) == (84, 9)
    assert (took[~moves].sum(), took[moves].sum()) == (287_390, 28_095 + 2_688)
    assert sorted(set(trace.column("stream", -1)[device].tolist())) == [7, 14]


def test_ranges_of_pytorch_are_operators_with_shapes(folder: Path) -> None:
    trace = ck.link(folder / "export.sqlite").run.trace(0)
    names = trace.names.to_pylist()
    assert (names.count("aten::linear"), names.count("aten::gelu")) == (6, 3)
    assert {"step 0", "step 1", "step 2"} < set(names)
    shapes = trace.nodes["inputs_shapes"][names.index("aten::linear")].as_py()
    assert shapes == "[[64, 512], [1024, 512], [1024]]"
