"""Meshes of devices by their shape, and as many devices as that takes."""

from __future__ import annotations

import math
import os
import re
from typing import Any

from chakrakit.errors import ConfigError

_NAMES = ("x", "y", "z", "w")
_SHAPE = re.compile(r"^\d+(x\d+)*$")
_NAMED = re.compile(r"^([A-Za-z_]\w*)[=:](\d+)$")


def parse_mesh(text: str) -> dict[str, int]:
    """Axes and sizes of `4x4` (axes x, y) or `data=4,model=4`."""
    if _SHAPE.match(text):
        sizes = [int(s) for s in text.split("x")]
        if len(sizes) <= len(_NAMES) and min(sizes) > 0:
            return dict(zip(_NAMES, sizes, strict=False))
    found = [_NAMED.match(part.strip()) for part in text.split(",")]
    axes = {m[1]: int(m[2]) for m in found if m}
    if len(axes) != len(found) or min(axes.values(), default=0) < 1:
        raise ConfigError(f"mesh {text!r}; give a shape such as 4x4, or data=4,model=4")
    return axes


def make_mesh(axes: dict[str, int], topology: str = "") -> Any:
    """A jax Mesh of that many devices: a TPU topology's, or those there are, or CPUs made for it."""
    count = math.prod(axes.values())
    devices = _topology(topology, count) if topology else _devices(count)
    import numpy as np
    from jax.sharding import Mesh

    return Mesh(np.array(devices[:count]).reshape(tuple(axes.values())), tuple(axes))


def _devices(count: int) -> list[Any]:
    flag = "--xla_force_host_platform_device_count"
    if flag not in os.environ.get("XLA_FLAGS", ""):
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {flag}={count}".strip()
    import jax

    for devices in (jax.devices(), jax.devices("cpu")):
        if len(devices) >= count:
            return list(devices)
    raise ConfigError(
        f"a mesh of {count} devices, and JAX has started with {len(jax.devices())}; capture before "
        f"anything else uses JAX, or set XLA_FLAGS={flag}={count}"
    )


def _topology(name: str, count: int) -> list[Any]:
    os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")
    from jax.experimental import topologies

    try:
        found = topologies.get_topology_desc(platform="tpu", topology_name=name)
    except Exception as error:  # whatever libtpu says, or that it is not there
        raise ConfigError(
            f"no TPU topology {name!r}: {str(error).splitlines()[0]}; it needs libtpu installed"
        ) from None
    devices = list(found.devices)
    if len(devices) < count:
        raise ConfigError(
            f"topology {name} has {len(devices)} devices and the mesh {count}; give a smaller --mesh"
        )
    return devices
