"""Arguments without values: `f32[16,1024]`, cut over a mesh as in `f32[16,1024]@x,y`."""

from __future__ import annotations

import re
from typing import Any

from chakrakit.errors import ConfigError
from chakrakit.operators import find_type

_ARGUMENT = re.compile(r"^([a-z]\w*)\[([\d,\s]*)\](?:@(.*))?$")


def parse_argument(text: str, mesh: Any) -> Any:
    """A ShapeDtypeStruct. After `@` there is an axis for each dimension, `-` for one that is not cut."""
    import jax
    import jax.numpy as jnp
    from jax.sharding import NamedSharding, PartitionSpec

    match = _ARGUMENT.match(text.strip())
    element = find_type(match[1]) if match else None
    if match is None or element is None or not hasattr(jnp, element.numpy or "?"):
        raise ConfigError(f"argument {text!r}; give a type and a shape such as bf16[16,1024]@x,-")
    shape = tuple(int(d) for d in match[2].split(",") if d.strip())
    axes = [None if a.strip() in ("-", "") else _axes(a, mesh) for a in (match[3] or "").split(",")]
    sharding = NamedSharding(mesh, PartitionSpec(*axes)) if match[3] else None
    return jax.ShapeDtypeStruct(shape, getattr(jnp, element.numpy), sharding=sharding)


def _axes(text: str, mesh: Any) -> Any:
    names = tuple(n.strip() for n in text.split("+"))
    for name in names:
        if name not in mesh.axis_names:
            raise ConfigError(f"the mesh has no axis {name!r}; it has {', '.join(mesh.axis_names)}")
    return names if len(names) > 1 else names[0]


def abstract(value: Any, mesh: Any) -> Any:
    """Any way to say an argument: text, (shape, type), an array, a struct; nests of them."""
    import jax
    import numpy as np

    def one(x: Any) -> Any:
        if isinstance(x, str):
            return parse_argument(x, mesh)
        if isinstance(x, jax.ShapeDtypeStruct) or not hasattr(x, "shape"):
            return x
        sharding = getattr(x, "sharding", None) if isinstance(x, jax.Array) else None
        return jax.ShapeDtypeStruct(np.shape(x), x.dtype, sharding=sharding)

    if isinstance(value, tuple) and value and all(type(d) is int for d in value):
        return jax.ShapeDtypeStruct(value, "float32")
    return jax.tree.map(one, value, is_leaf=lambda x: isinstance(x, str))
