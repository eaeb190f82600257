"""What a command line runs, apart from its launcher: a script, a module or code."""

from __future__ import annotations

import re
import runpy
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from chakrakit.sources.capture.recording import CaptureError

_PYTHON = re.compile(r"^python[\d.]*$")
_LAUNCHERS = ("torch.distributed.run", "torch.distributed.launch")


@dataclass(frozen=True)
class Script:
    """`kind` is script, module or code; `target` its path, name or text."""

    kind: str
    target: str
    arguments: tuple[str, ...] = ()
    local_size: int = 0
    """Ranks on one host, where a launcher says so."""

    def check(self) -> None:
        """Raise a CaptureError if the script does not exist."""
        if self.kind == "script" and not Path(self.target).is_file():
            raise CaptureError(
                f"{self.target}: there is no such script; give -- python SCRIPT ARGS"
            )

    def run(self) -> None:
        """Run it as Python would."""
        sys.argv = [self.target, *self.arguments]
        if self.kind == "script":
            sys.path[0] = str(Path(self.target).absolute().parent)
            runpy.run_path(self.target, run_name="__main__")
        elif self.kind == "module":
            sys.path.insert(0, str(Path.cwd()))
            runpy.run_module(self.target, run_name="__main__", alter_sys=True)
        else:
            exec(compile(self.target, "-c", "exec"), {"__name__": "__main__"})


def script_of(command: Sequence[str]) -> Script:
    """What a command runs; torchrun and its module are taken away, whatever their options."""
    if not command:
        raise CaptureError("there is nothing to capture; give -- python SCRIPT ARGS")
    first, rest = Path(command[0]).name, list(command[1:])
    if first == "torchrun":
        return _launched(rest)
    if not _PYTHON.match(first):
        if first.endswith(".py"):
            return Script("script", command[0], tuple(rest))
        raise CaptureError(
            f"{command[0]}: only Python programs can be captured; give -- python SCRIPT ARGS"
        )
    while rest and rest[0].startswith("-") and rest[0] not in ("-m", "-c"):
        rest = rest[2:] if rest[0] in ("-W", "-X") else rest[1:]
    if len(rest) < 2 and rest[:1] in ([], ["-m"], ["-c"]):
        raise CaptureError("the command names no script; give -- python SCRIPT ARGS")
    if rest[0] == "-m":
        return (
            _launched(rest[2:])
            if rest[1] in _LAUNCHERS
            else Script("module", rest[1], tuple(rest[2:]))
        )
    if rest[0] == "-c":
        return Script("code", rest[1], tuple(rest[2:]))
    return Script("script", rest[0], tuple(rest[1:]))


def _launched(arguments: list[str]) -> Script:
    """The script in torchrun's arguments, by torchrun's parser, which knows what options take a value."""
    from torch.distributed.run import get_args_parser

    try:
        parsed, _ = get_args_parser().parse_known_args(arguments)
    except SystemExit:
        raise CaptureError("torchrun's options are not understood; leave torchrun out") from None
    asked = any(a.replace("-", "_").startswith("__nproc_per_node") for a in arguments)
    local = str(parsed.nproc_per_node) if asked else ""
    kind = "module" if parsed.module else "script"
    return Script(
        kind,
        parsed.training_script,
        tuple(parsed.training_script_args),
        int(local) if local.isdecimal() else 0,
    )
