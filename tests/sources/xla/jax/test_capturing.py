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
from chakrakit.errors import ConfigError
from chakrakit.sources.xla import capture_jax_command
from chakrakit.sources.xla import jax as capturing
from chakrakit.sources.xla.jax import make_mesh

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
        "from chakrakit.commands import main; main()",
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


@pytest.mark.parametrize("target", ["model", ":f", "model:", ""])
def test_a_target_names_a_module_and_a_function(target: str) -> None:
    with pytest.raises(ConfigError, match="give MODULE:FUNCTION or FILE"):
        capture_jax_command(target, [], None, mesh="1")


@pytest.mark.parametrize(
    ("name", "said"),
    [("gone.py", "there is no such file"), ("no_such_module", "cannot import 'no_such_module'")],
)
def test_a_program_that_is_not_there_is_named(
    name: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    with pytest.raises(ConfigError, match=said):
        capturing._imported(name)


def test_whatever_a_program_raises_is_said_with_its_line() -> None:
    with (
        pytest.raises(
            ConfigError, match=r"^test_capturing.py:\d+: the program failed\nKeyError: 'w'$"
        ),
        capturing._failing_in("model"),
    ):
        raise KeyError("w")
    with pytest.raises(ConfigError, match=r"^ours$"), capturing._failing_in("model"):
        raise ConfigError("ours")


@pytest.mark.parametrize("given", [lambda: 3, lambda mesh: (1, 2), lambda: ()])
def test_a_function_that_makes_nothing_to_capture_says_what_it_should(given: Any) -> None:
    mesh = make_mesh({"x": 1})
    with pytest.raises(ConfigError, match=r"neither \(function, arguments\) nor a lowered program"):
        capturing._called(given, mesh)


@pytest.mark.parametrize("arguments", [([1, 2],), (1, 2)])
def test_arguments_come_in_one_list_or_one_by_one(arguments: Any) -> None:
    assert capturing._called(lambda: (len, *arguments), make_mesh({"x": 1})) == (len, [1, 2])
