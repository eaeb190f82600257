"""The fuzzer of replayed ranks tells a crash of gloo's threads from one of ours."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec

import pytest

from fuzz.formats.ranks import died_in_gloo

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="crashes as Linux reports them")

_IN_A_NATIVE_THREAD = """
libc, thread = ctypes.CDLL(None), ctypes.c_ulong()
libc.pthread_create(ctypes.byref(thread), None, ctypes.cast(libc.abort, ctypes.c_void_p), None)
libc.pthread_join(thread, None)
"""


@pytest.mark.skipif(find_spec("torch") is None, reason="needs PyTorch")
@pytest.mark.parametrize(
    ("crash", "gloo"),
    [
        (_IN_A_NATIVE_THREAD, True),
        ("import os; os.abort()", False),
        ("ctypes.string_at(0)", False),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", False),
    ],
)
def test_a_crash_is_gloo_s_only_outside_python_s_threads(crash: str, gloo: bool) -> None:
    code = f"import ctypes, faulthandler; faulthandler.enable()\n{crash}"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ended.returncode < 0
    assert died_in_gloo(-ended.returncode, ended.stderr) is gloo
