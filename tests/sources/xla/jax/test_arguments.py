"""Arguments without values, cut over a mesh."""

from __future__ import annotations

import numpy as np
import pytest

from chakrakit.errors import ConfigError
from chakrakit.sources.xla.jax import abstract, parse_argument

jax = pytest.importorskip("jax", reason="pip install jax")


@pytest.fixture(scope="module")
def mesh():
    devices = np.array(jax.devices("cpu")[:1]).reshape(1, 1)
    return jax.sharding.Mesh(devices, ("x", "y"))


@pytest.mark.parametrize(
    ("text", "shape", "dtype", "cut"),
    [
        ("f32[16,1024]", (16, 1024), "float32", None),
        ("bf16[ 16 , 4 ]@x,-", (16, 4), "bfloat16", ("x", None)),
        ("s32[8]@x+y", (8,), "int32", (("x", "y"),)),
        ("pred[]", (), "bool", None),
        ("float32[2]", (2,), "float32", None),
    ],
)
def test_a_type_a_shape_and_an_axis_for_each_dimension(mesh, text, shape, dtype, cut):
    made = parse_argument(text, mesh)
    assert (made.shape, made.dtype.name) == (shape, dtype)
    assert (None if made.sharding is None else tuple(made.sharding.spec)) == cut


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("16,1024", "give a type and a shape such as"),
        ("f99[4]", "give a type and a shape such as"),
        ("f32[4]@z", "the mesh has no axis 'z'; it has x, y"),
    ],
)
def test_what_is_no_argument_is_refused(mesh, text, said):
    with pytest.raises(ConfigError, match=said):
        parse_argument(text, mesh)


def test_any_way_to_say_an_argument(mesh):
    said = {"w": "f32[2,3]", "x": np.zeros((4,), np.int32), "scale": 2.0}
    found = abstract(said, mesh)
    assert (found["w"].shape, found["x"].shape, found["x"].dtype.name) == ((2, 3), (4,), "int32")
    assert found["scale"] == 2.0
    assert abstract((8, 16), mesh).dtype.name == "float32"
