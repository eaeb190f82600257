"""Meshes of devices by their shape."""

from __future__ import annotations

import pytest

from chakrakit.errors import ConfigError
from chakrakit.sources.xla.jax import make_mesh, parse_mesh


@pytest.mark.parametrize(
    ("text", "axes"),
    [
        ("8", {"x": 8}),
        ("4x2", {"x": 4, "y": 2}),
        ("data=4,model=2", {"data": 4, "model": 2}),
        ("data:4, model:2", {"data": 4, "model": 2}),
    ],
)
def test_axes_and_sizes(text, axes):
    assert parse_mesh(text) == axes


@pytest.mark.parametrize("text", ["", "0", "4x0", "2x2x2x2x2", "data=0", "x=2,x=2", "2x", "a=b"])
def test_a_mesh_that_cannot_be_is_refused(text):
    with pytest.raises(ConfigError, match="give a shape such as 4x4, or data=4,model=4"):
        parse_mesh(text)


def test_a_mesh_has_its_axes_and_more_devices_than_there_are_is_refused(monkeypatch):
    jax = pytest.importorskip("jax", reason="pip install jax")
    monkeypatch.setenv("XLA_FLAGS", "--xla_force_host_platform_device_count=1")
    assert dict(make_mesh({"x": 1, "y": 1}).shape) == {"x": 1, "y": 1}
    too_many = len(jax.devices()) + 1
    with pytest.raises(
        ConfigError, match=f"a mesh of {too_many} devices, and JAX has started with"
    ):
        make_mesh({"x": too_many})
