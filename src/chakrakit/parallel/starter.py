"""How an engine is chosen by name, and started."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec

from chakrakit.errors import ConfigError, MissingExtra
from chakrakit.parallel.engine import Engine, cores


def check_engine(engine: str) -> None:
    """Raises a ConfigError or MissingExtra if `each` could not use it."""
    starter(engine, None)


def starter(engine: str, jobs: int | None) -> Callable[[], Engine]:
    """What starts an engine; that it can be is checked here, before there is anything to undo."""
    name, colon, address = engine.partition(":")
    if jobs is not None and jobs < 1:
        raise ConfigError(f"jobs is {jobs}; it must be 1 or more")
    if name == "local" and not colon:
        from chakrakit.parallel.local import Local

        return lambda: Local(jobs or cores())
    if name not in ("ray", "dask") or (colon and not address):
        raise ConfigError(
            f"no engine {engine!r}; there are local, ray, dask, ray:ADDRESS and dask:ADDRESS"
        )
    if find_spec({"ray": "ray", "dask": "distributed"}[name]) is None:
        raise MissingExtra(f"--engine {name}", name)
    if name == "ray":
        from chakrakit.parallel.ray_cluster import Ray

        return lambda: Ray(address, jobs)
    from chakrakit.parallel.dask_cluster import Dask

    return lambda: Dask(address, jobs)
