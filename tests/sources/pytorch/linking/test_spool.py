"""Traces kept on disk until they are written."""

from __future__ import annotations

import gc
import pickle

from chakrakit.sources.pytorch.linking.linker import TraceSpool
from chakrakit.trace.model import Trace


def test_a_trace_comes_back_and_the_folder_goes_with_the_spool(tmp_path):
    spool = TraceSpool(tmp_path / "new")
    trace = Trace.from_columns({"name": ["a", "b"]})
    spool.put(3, trace)
    assert spool.get(3).table.equals(trace.table)
    (folder,) = (tmp_path / "new").glob("*linking*")
    assert folder == spool.place
    assert folder.stat().st_mode & 0o777 == 0o700  # traces are pickles: nobody else may write them
    del spool
    gc.collect()
    assert not folder.exists()


def test_a_worker_s_copy_knows_the_place_and_does_not_remove_it(tmp_path):
    spool = TraceSpool(tmp_path)
    copy = pickle.loads(pickle.dumps(spool))
    copy.put(0, Trace.from_columns({"name": ["a"]}))
    del copy
    gc.collect()
    assert spool.get(0).names.to_pylist() == ["a"]
