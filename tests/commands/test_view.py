"""`chakra view`: what it says when it cannot serve, and that it serves here alone."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time

import pytest
from click.testing import CliRunner

import chakrakit as ck
from chakrakit import TraceBuilder, TraceSet, write
from chakrakit.commands import group, main


@pytest.fixture
def path(tmp_path):
    t = TraceBuilder()
    t.comp("a", duration_ns=10)
    write(TraceSet([t.build()]), tmp_path / "w")
    return str(tmp_path / "w")


def test_more_than_two_runs_are_refused(path):
    assert "one run, or two" in CliRunner().invoke(group, ["view", path, path, path]).output


def test_a_port_in_use_is_named(path, capsys):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(SystemExit):
            main(["view", path, "--no-browser", "--port", str(port)])
    assert f"port {port} cannot be used" in capsys.readouterr().err


def test_a_missing_package_comes_with_the_command_that_installs_it(path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(SystemExit):
        main(["view", path, "--no-browser"])
    assert "pip install 'chakrakit[view]'" in capsys.readouterr().err


@pytest.mark.slow
def test_it_listens_on_the_loopback_device_alone(path):
    words = ["view", path, "--no-browser", "--port", "0"]
    command = [sys.executable, "-c", "from chakrakit.commands import main; main()", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            address = server.stdout.readline().split()[0]
            port = int(address.rstrip("/").rpartition(":")[2])
            assert address.startswith("http://127.0.0.1:")
            with socket.create_connection(("127.0.0.1", port)):
                pass
            # Every address of 127/8 is this machine, but only one was bound.
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.2", port), timeout=5)
        finally:
            server.terminate()


def test_what_cannot_be_opened_is_not_served() -> None:
    with pytest.raises(ck.ChakraError, match="absent: no such file"):
        ck.view("absent", browser=False)


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 0), (signal.SIGTERM, 143)])
def test_it_ends_at_once_whatever_it_computes(path, number, code):
    slow = (
        "import time, chakrakit.views.app.editing as e; "
        "e.Editing.offered = lambda self: time.sleep(60); "
        "from chakrakit.commands import main; main()"
    )
    words = [sys.executable, "-c", slow, "view", path, "--no-browser", "--port", "0"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(words, **pipes) as server:
        port = int(server.stdout.readline().split()[0].rstrip("/").rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(f"GET /api/offered HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n".encode())
            time.sleep(1)
            server.send_signal(number)
            assert server.wait(30) == code
        assert server.stderr.read() == ""
