"""A plugin of pytest (`-p support.alone`) that runs every test in a process forked for it.

PyTorch builds for GPUs refuse gradients in a process that was forked after another gradient, which captures
in the tests' own process would otherwise do. Fixtures of a session are made again for every test.
"""

from __future__ import annotations

import os
import pickle
import tempfile
from pathlib import Path
from typing import Any

import pytest
from _pytest.runner import runtestprotocol


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: Any, nextitem: Any) -> bool:
    """Run one test in a child and report what it found."""
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    with tempfile.NamedTemporaryFile() as file:
        child = os.fork()
        if child == 0:
            reports = runtestprotocol(item, log=False, nextitem=None)
            kept = [
                item.config.hook.pytest_report_to_serializable(config=item.config, report=r)
                for r in reports
            ]
            Path(file.name).write_bytes(pickle.dumps(kept))
            os._exit(0)
        os.waitpid(child, 0)
        text = file.read()
    for kept in pickle.loads(text) if text else []:
        report = item.config.hook.pytest_report_from_serializable(config=item.config, data=kept)
        item.ihook.pytest_runtest_logreport(report=report)
    if not text:
        raise RuntimeError(f"{item.nodeid}: its process ended")
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True
