"""A command line as what it runs, with its launcher taken away."""

from __future__ import annotations

import sys

import pytest

from chakrakit.sources.capture.recording import CaptureError
from chakrakit.sources.capture.script import Script, script_of


@pytest.mark.parametrize(
    ("command", "script"),
    [
        ("python train.py --lr 1", Script("script", "train.py", ("--lr", "1"))),
        ("/usr/bin/python3.12 -u -W ignore train.py", Script("script", "train.py")),
        ("./train.py -m 3", Script("script", "./train.py", ("-m", "3"))),
        ("python -m pkg.train x", Script("module", "pkg.train", ("x",))),
        ("python -c print(1) x", Script("code", "print(1)", ("x",))),
        (
            "torchrun --nproc_per_node 4 --nnodes=2 train.py --lr 1",
            Script("script", "train.py", ("--lr", "1"), 4),
        ),
        ("torchrun --nproc-per-node gpu -m pkg.train", Script("module", "pkg.train", (), 0)),
        (
            "python -m torch.distributed.run --standalone train.py",
            Script("script", "train.py", (), 0),
        ),
    ],
)
def test_what_a_command_runs(command, script):
    assert script_of(command.split()) == script


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ([], "there is nothing to capture"),
        (["python", "-u"], "names no script"),
        (["python", "-m"], "names no script"),
        (["./a.out"], "only Python programs can be captured"),
        (["torchrun", "--nnodes"], "torchrun's options are not understood"),
    ],
)
def test_a_command_that_names_no_program_is_refused(command, said):
    with pytest.raises(CaptureError, match=said):
        script_of(command)


def test_a_script_that_is_not_there_is_named(tmp_path):
    with pytest.raises(CaptureError, match=r"gone\.py: there is no such script"):
        Script("script", str(tmp_path / "gone.py")).check()
    Script("code", "1 + 1").check()


def test_a_script_runs_as_the_main_program_with_its_arguments(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "beside.py").write_text("value = 5\n")
    path = tmp_path / "train.py"
    path.write_text("import sys, beside\nprint(__name__, sys.argv[1:], beside.value)\n")
    Script("script", str(path), ("a",)).run()
    Script("code", "print(__name__)").run()
    monkeypatch.delitem(sys.modules, "beside")
    assert capsys.readouterr().out == "__main__ ['a'] 5\n__main__\n"
