"""Walls around a rank: what an operator could do if it were in the hands of whoever wrote the plan.

A plan cannot run code. So the code of an attacker is put into the runner of an exported folder, where the
first operator would be called, and tries from there what it likes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from chakrakit.replayer import ReplayOptions, export
from chakrakit.replayer.runner.confine import _holds_packages, bare_environment
from chakrakit.replayer.session import ReplayFailed, finish, run_folder
from support.replayed import small_model

pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="walls of Linux")

HIJACKED = """

def _hijacked(self, i, step, bindings, _first_time=PlanProgram._first_time):
    exec(Path(__file__).with_name("attack.txt").read_text(), {"OUT": sys.argv[sys.argv.index("--out") + 1]})
    return _first_time(self, i, step, bindings)

import sys
from pathlib import Path
PlanProgram._first_time = _hijacked
"""

ATTEMPTS = """
import ctypes, fcntl, json, os, resource, socket, subprocess, threading, time
found = {}
def attempt(name, do):
    try:
        found[name] = repr(do())
    except OSError as error:
        found[name] = type(error).__name__
def all_of_them(prefix):
    def named(name, do):
        attempt(prefix + name, do)
    named("read a file", lambda: open(SECRET).read())
    named("read the password file", lambda: open("/etc/passwd").read())
    named("write a file", lambda: open(SECRET, "w"))
    named("write beside", lambda: open(SECRET + ".new", "w"))
    named("remove a file", lambda: os.unlink(SECRET))
    named("list the root", lambda: os.listdir("/"))
    named("link to a file", lambda: os.symlink(SECRET, OUT + "/link"))
    named("let others read it", lambda: os.chmod(SECRET, 0o777))
    named("give it away", lambda: os.chown(SECRET, os.getuid(), os.getgid()))
    named("date it back", lambda: os.utime(SECRET, (1, 1)))
    named("mark it", lambda: os.setxattr(SECRET, "user.marked", b"1"))
    named("connect", lambda: socket.create_connection(("127.0.0.1", PORT), 1))
    named("send a datagram", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    named("open a local socket", lambda: socket.socket(socket.AF_UNIX))
    named("signal the starter", lambda: os.kill(os.getppid(), 0))
    named("signal all", lambda: os.kill(0, 0))
    named("read the starter's environment", lambda: open(f"/proc/{os.getppid()}/environ").read())
    named("read the starter's memory", lambda: open(f"/proc/{os.getppid()}/mem", "rb"))
    named("limit the starter", lambda: resource.prlimit(os.getppid(), 7, (9, 9)))
    named("slow the starter down", lambda: os.setpriority(os.PRIO_PROCESS, os.getppid(), 19))
    named("move the starter", lambda: os.sched_setaffinity(os.getppid(), os.sched_getaffinity(0)))
    named("name the machine", lambda: socket.sethostname(socket.gethostname()))
    named("set the clock", lambda: time.clock_settime(time.CLOCK_REALTIME, time.time()))
    named("fork", os.fork)
    named("run a program", lambda: subprocess.run(["/bin/true"]))
    named("send by a pair of sockets", lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM))
    named("have the kernel signal the starter", lambda: fcntl.fcntl(2, fcntl.F_SETOWN, os.getppid()))
    named("type into a terminal", lambda: fcntl.ioctl(2, 0x5412, b"x"))  # TIOCSTI
    named("starve the starter", lambda: os.sched_setscheduler(os.getppid(), os.SCHED_IDLE, os.sched_param(0)))
    for call in ("inotify_init", "shmctl", "semctl", "msgctl"):
        named(call, lambda: _asked(getattr(library, call), -1, 0, 0, 0))
library = ctypes.CDLL(None, use_errno=True)
def _asked(function, *words):
    if function(*words) < 0:
        raise OSError(ctypes.get_errno(), "")
all_of_them("")
thread = threading.Thread(target=all_of_them, args=("in a thread: ",))
thread.start(); thread.join()
found["environment"] = sorted(os.environ)
found["terminals"] = [n for n in range(3) if os.isatty(n)]
open(OUT + "/attack.json", "w").write(json.dumps(found))
"""


@pytest.fixture
def hijacked(tmp_path):
    """Runs a replay in which an attacker's code takes the place of every operator; gives its folder."""
    traces = small_model().write(tmp_path / "et_0.json")

    def run(attack: str, *arguments: str) -> Path:
        folder = tmp_path / "replay"
        export(str(traces), folder, ReplayOptions())
        program = folder / "runner" / "program.py"
        program.write_text(program.read_text() + HIJACKED)
        (folder / "runner" / "attack.txt").write_text(textwrap.dedent(attack))
        command = [sys.executable, str(folder / "run.py"), "--iterations", "1", "--warmup", "0"]
        run_folder([*command, "--no-profile", *arguments])
        return folder

    return run


@pytest.mark.slow
def test_nothing_outside_can_be_reached(hijacked, tmp_path, monkeypatch):
    """Files, network, environment and other processes; from the rank's own thread and from a new one."""
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("LANGCHAIN_API_KEY", "secret")
    secret = tmp_path / "secret"
    secret.write_text("mine")
    folder = hijacked(f"SECRET, PORT = {str(secret)!r}, 9\n{ATTEMPTS}")
    found = json.loads((folder / "result" / "attack.json").read_text())
    environment, terminals = found.pop("environment"), found.pop("terminals")
    walls = json.loads((folder / "result" / "rank_0.json").read_text())["walls"]
    if set(walls) != {"files", "memory", "calls"}:
        pytest.skip(f"this kernel has only {walls}")
    assert len(found) == 66
    assert {name: how for name, how in found.items() if how != "PermissionError"} == {}
    assert secret.read_text() == "mine"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["et_0.json", "replay", "secret"]
    assert not {"AWS_SECRET_ACCESS_KEY", "LANGCHAIN_API_KEY"} & set(environment)
    assert terminals == []
    assert finish(folder, None).warning == ""


def test_a_crash_costs_a_message_that_names_the_operator(hijacked):
    with pytest.raises(
        ReplayFailed, match=r"rank 0 was killed by SIGSEGV in step 0 \(aten::embedding\)"
    ) as error:
        hijacked("import ctypes; ctypes.string_at(0)")
    assert "--mode emulate calls no operators" in str(error.value)


@pytest.mark.slow
def test_a_call_that_never_ends_is_ended(hijacked, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    with pytest.raises(
        ReplayFailed, match=r"SIGPROF in step 0 \(aten::embedding\).*more processor time"
    ):
        hijacked("while True: pass", "--timeout", "1")


@pytest.mark.slow
def test_memory_beyond_the_machine_s_cannot_be_had(hijacked):
    """Not even addresses; the rest of the machine notices nothing."""
    attack = """
        import mmap
        try:
            mmap.mmap(-1, 1 << 45, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000)  # MAP_NORESERVE
        except (OSError, MemoryError):
            open(OUT + "/refused", "w")
    """
    assert (hijacked(attack) / "result" / "refused").exists()


@pytest.mark.slow
def test_a_missing_wall_is_said_in_the_report(hijacked):
    folder = hijacked("")
    path = folder / "result" / "rank_0.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "walls": ["calls", "memory"]}))
    assert finish(folder, None).warning == (
        "The replay could have reached any file (this kernel has no Landlock)."
    )


def test_a_rank_sees_what_pytorch_reads_of_the_environment_and_no_more():
    given = {
        "PATH": "/bin",
        "OMP_NUM_THREADS": "2",
        "NCCL_DEBUG": "INFO",
        "HF_TOKEN": "x",
        "LANGSMITH_API_KEY": "x",
        "MASTER_KEY": "x",
        "HOME": "/root",
    }
    seen = bare_environment(given, "/tmp/own")
    assert {k: seen[k] for k in ("PATH", "OMP_NUM_THREADS", "NCCL_DEBUG")} == {
        k: given[k] for k in ("PATH", "OMP_NUM_THREADS", "NCCL_DEBUG")
    }
    assert (seen["HOME"], seen["TMPDIR"]) == ("/tmp/own", "/tmp/own")
    assert not {"HF_TOKEN", "LANGSMITH_API_KEY", "MASTER_KEY"} & set(seen)


@pytest.mark.slow
def test_the_exported_folder_ends_with_2_and_a_message(hijacked, tmp_path):
    with pytest.raises(ReplayFailed):
        hijacked("import os; os.abort()")
    command = [sys.executable, str(tmp_path / "replay" / "run.py"), "--iterations", "1"]
    done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ))
    assert done.returncode == 2
    assert "error: rank 0 was killed by SIGABRT in step 0 (aten::embedding)" in done.stderr


def test_packages_that_pip_put_elsewhere_are_readable_and_other_folders_of_the_path_are_not(
    tmp_path,
):
    own, installed = tmp_path / "own", tmp_path / "target"
    own.mkdir()
    (installed / "thing-1.0.dist-info").mkdir(parents=True)
    assert _holds_packages(str(installed))
    assert not _holds_packages(str(own))
    assert not _holds_packages("")


@pytest.mark.slow
def test_what_a_rank_says_is_passed_on_as_plain_text_and_not_without_end(hijacked, tmp_path):
    attack = """
        import os
        os.write(1, b"\\x1b]0;mine\\x07\\n")
        for _ in range(100):
            os.write(2, b"x" * 100_000)
        os.write(2, b"\\n")
        raise SystemExit(7)
    """
    with pytest.raises(ReplayFailed, match="rank 0 ended with code 7"):
        hijacked(attack)
    command = [sys.executable, str(tmp_path / "replay" / "run.py"), "--iterations", "1"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("?]0;mine?\n")
    assert len(done.stderr) < 2 << 20


def test_where_a_rank_was_is_not_read_from_what_it_put_there_instead(hijacked):
    attack = """
        import os
        place = os.environ["HOME"] + "/position"
        os.truncate(place, 3)
        os.unlink(place)
        os.mkdir(place)
        os.abort()
    """
    with pytest.raises(ReplayFailed, match="rank 0 was killed by SIGABRT; the replay was ended"):
        hijacked(attack)


@pytest.mark.slow
def test_results_do_not_go_where_a_link_leads(hijacked, tmp_path):
    folder = hijacked("")
    (folder / "result").rename(folder / "before")
    (folder / "result").symlink_to(tmp_path)
    done = subprocess.run([sys.executable, str(folder / "run.py")], capture_output=True, text=True)
    assert done.returncode == 2
    assert "result is a link, and ranks write where it leads; give --out" in done.stderr


@pytest.mark.slow
def test_a_plan_that_is_a_pipe_is_not_waited_for(hijacked):
    folder = hijacked("")
    (folder / "plan_0.json.gz").unlink()
    os.mkfifo(folder / "plan_0.json.gz")
    command = [sys.executable, str(folder / "run.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert done.returncode == 2
    assert "plan_0.json.gz is not a plan: no such file" in done.stderr


@pytest.mark.slow
def test_more_ranks_than_fit_are_refused_before_any_is_started(hijacked):
    folder = hijacked("")
    for rank in range(1, 20_000):
        (folder / f"plan_{rank}.json.gz").symlink_to("plan_0.json.gz")
    command = [sys.executable, str(folder / "run.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert done.returncode == 2
    assert "error: the plan needs 1,250.0 GiB on this machine" in done.stderr
