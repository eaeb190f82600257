"""An engine by its name."""

import importlib.util

import pytest

from chakrakit.errors import ConfigError, MissingExtra
from chakrakit.parallel import check_engine
from chakrakit.parallel.workers import starter


@pytest.mark.parametrize("name", ["", "slurm", "local:4", "ray:", "dask:"])
def test_a_name_that_is_none_is_refused(name):
    with pytest.raises(ConfigError, match="there are local, ray, dask, ray:ADDRESS"):
        check_engine(name)


def test_jobs_are_one_or_more():
    with pytest.raises(ConfigError, match="jobs is 0; it must be 1 or more"):
        starter("local", 0)


def test_a_package_that_is_missing_is_told_before_anything_starts(monkeypatch):
    monkeypatch.setattr("chakrakit.parallel.workers.find_spec", lambda _name: None)
    with pytest.raises(MissingExtra, match=r"pip install 'chakrakit\[dask\]'"):
        check_engine("dask:tcp://host:1")
    assert importlib.util.find_spec("json")  # others still find their packages


@pytest.mark.parametrize("name", ["ray", "dask"])
def test_each_cluster_has_its_engine(name, monkeypatch):
    """Which one is started, seen from classes that only keep what they are given."""
    monkeypatch.setattr("chakrakit.parallel.workers.find_spec", lambda _name: True)
    for kind in ("Ray", "Dask"):
        monkeypatch.setattr(
            f"chakrakit.parallel.clusters.{kind}", lambda *given, kind=kind: (kind.lower(), *given)
        )
    assert starter(name, 3)() == (name, "", 3)
    assert starter(f"{name}:host:1", None)() == (name, "host:1", None)
