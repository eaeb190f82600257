"""JAX functions compiled for meshes of CPUs: what XLA made of them is what the traces say."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from chakrakit import read, validate

pytest.importorskip("jax", reason="pip install jax")

PROGRAM = """
import jax, jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec as P

def loss(w, x):
    return (jnp.tanh(x @ w) ** 2).mean()

def make(mesh):
    cut = lambda *axes: NamedSharding(mesh, P(*axes))
    step = jax.jit(jax.grad(loss), out_shardings=cut(None, "y"))
    w = jax.ShapeDtypeStruct((256, 512), jnp.float32, sharding=cut(None, "y"))
    return step, (w, jax.ShapeDtypeStruct((64, 256), jnp.float32, sharding=cut("x", None)))
"""


def run(folder: Path, *arguments: str) -> Any:
    done = started(folder, *arguments)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def started(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    (folder / "model.py").write_text(PROGRAM)
    command = [
        sys.executable,
        "-c",
        "from chakrakit.cli import main; main()",
        "capture",
        *arguments,
    ]
    environment = {
        **os.environ,
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": f"--xla_dump_to={folder}/dump",
    }
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


@pytest.mark.parametrize("mesh", ["2x2", "4x4", pytest.param("8x8", marks=pytest.mark.slow)])
def test_collectives_are_those_of_the_compiled_program(mesh: str, tmp_path: Path) -> None:
    made = run(tmp_path, "--jax", "model:make", "--mesh", mesh, "-o", "out", "--json")
    dump = next((tmp_path / "dump").glob("*jit_loss*after_optimizations.txt")).read_text()
    there = re.findall(r"= .*? (all-reduce|all-gather|reduce-scatter|all-to-all)\(", dump)
    assert sum(c["count"] for c in made["collectives"]) == len(there) > 0
    traces = read(tmp_path / "out")
    x, y = map(int, mesh.split("x"))
    assert made["ranks"] == len(traces) == x * y
    assert validate(traces).ok


@pytest.mark.slow
def test_arguments_are_given_by_their_shapes(tmp_path: Path) -> None:
    shapes = ("f32[256,512]@-,y", "f32[64,256]@x,-")
    made = run(tmp_path, "--jax", "model.py:loss", "--mesh", "x=2,y=2", "--json", *shapes)
    assert {c["type"] for c in made["collectives"]} == {"ALL_REDUCE"}
    assert made["kinds"][0]["flops"] == 2 * 32 * 256 * 256


@pytest.mark.slow
def test_a_program_that_fails_says_so_in_two_lines_with_its_own(tmp_path: Path) -> None:
    shapes = ("f32[256,512]", "f32[64,8]")
    done = started(tmp_path, "--jax", "model.py:loss", "--mesh", "2x2", "-o", "out", *shapes)

    first, second = done.stderr.splitlines()
    assert (done.returncode, first) == (2, "error: model.py:6: the program failed")
    assert second.startswith("TypeError: dot_general")
    assert not (tmp_path / "out").exists()
