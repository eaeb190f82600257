"""Code that a compiler generated is found where Inductor and Triton keep it."""

from __future__ import annotations

import json
import sys
from types import ModuleType, SimpleNamespace

import pytest

pytest.importorskip("torch")

from chakrakit.sources.pytorch.recorder.generated import generated_code

SIGNATURE = {"in_ptr0": "*fp32", "out_ptr0": "*bf16", "xnumel": "i32", "XBLOCK": "constexpr"}


@pytest.fixture
def compiled(tmp_path, monkeypatch):
    """A module of Inductor's with one kernel, whose PTX and description Triton left in its cache."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    home = tmp_path / "HASH"
    home.mkdir()
    (home / "triton_poi_0.ptx").write_text(".entry triton_poi_0()")
    described = {"num_warps": 4, "shared": 64, "num_ctas": 1, "global_scratch_size": 0}
    (home / "triton_poi_0.json").write_text(json.dumps(described))
    launcher = SimpleNamespace(cache_hash="HASH", config=SimpleNamespace(kwargs={"XBLOCK": 128}))
    module = ModuleType("graph")
    module.__file__ = "/cache/ab/cgraph.py"
    module.triton_poi_0 = SimpleNamespace(
        filename="/cache/ab/cabc.py",
        launchers=[launcher],
        fn=SimpleNamespace(__name__="triton_poi_0"),
        triton_meta={"signature": SIGNATURE, "device": SimpleNamespace(index=0)},
    )
    cache = SimpleNamespace(PyCodeCache=SimpleNamespace(modules=[module]))
    monkeypatch.setitem(sys.modules, "torch._inductor.codecache", cache)
    return home


def test_a_kernel_has_its_code_and_how_it_was_launched(compiled):
    assert generated_code() == {
        "cabc": {
            "name": "triton_poi_0",
            "ptx": ".entry triton_poi_0()",
            "arguments": [["in_ptr0", "*fp32"], ["out_ptr0", "*bf16"], ["xnumel", "i32"]],
            "threads": 128,
            "shared": 64,
            "plain": True,
        }
    }


def test_a_kernel_whose_code_was_not_kept_is_left_out(compiled):
    (compiled / "triton_poi_0.ptx").unlink()
    assert generated_code() == {}


def test_a_program_that_compiled_nothing_has_none(monkeypatch):
    monkeypatch.delitem(sys.modules, "torch._inductor.codecache", raising=False)
    assert generated_code() == {}
