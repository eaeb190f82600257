"""What users call, in Python and from a shell: one file per command, imported when it is called.

A file has the command's options (options.py says how), its function and what it prints. `main` is `chakra`.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import os
import signal
import sys
import threading
from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.machinery import ExtensionFileLoader, SourceFileLoader
from types import FrameType
from typing import Any, NoReturn

import click

__all__ = ["COMMANDS", "group", "main"]

# Idle BLAS threads would burn CPU time; nothing here uses BLAS.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

GROUPS: dict[str, dict[str, str]] = {
    "Get a workload": {
        "generate": "Traces of a model under a parallel plan, with nothing run.",
        "capture": "Traces of your program on ranks that need not exist.",
        "collect": "Record a PyTorch program's steps and link them.",
        "link": "Link recordings (PyTorch, Nsight Systems, XLA, …) into a run.",
        "get": "A bundle of a library of traces: a folder, or a URL.",
        "models": "Models that `generate` knows by name.",
    },
    "Run it": {
        "simulate": "A workload on a machine that need not exist; or as ASTRA-sim.",
        "serve": "Requests with a model on a machine: latencies, throughput.",
        "replay": "A trace on real hardware, or its communication alone.",
        "live": "Programs that react: actors that decide while time passes.",
        "machines": "List and draw machines to simulate on.",
        "collective": "Time collectives on a machine, as nccl-tests prints them.",
        "calibrate": "Make a compute profile or a network model from measurements.",
    },
    "Understand it": {
        "analyze": "Where the time went, who waits for whom, what would help.",
        "compare": "What differs between two runs, and what explains it.",
        "view": "Look at a run, or two, in the browser; change it and see.",
        "report": "One page about a run: HTML that works offline, or Markdown.",
        "query": "Ask with SQL: nodes, edges, collectives, ranks.",
        "mcp": "Serve a folder of traces to agents (Model Context Protocol).",
    },
    "Find something better": {
        "transform": "Change traces: select, scale, other devices, edits.",
        "search": "The fastest (cheapest, thriftiest) plan of a model on a machine.",
        "sweep": "A study: workloads × machines × passes; resumable.",
        "campaign": "Months of training with failures, checkpoints, recovery.",
        "study": "A published idea against comparators tuned as carefully.",
        "studies": "What became of published systems; nothing is run.",
    },
    "Handle files": {
        "info": "What a trace holds: model, plan, ranks, nodes, groups, sizes.",
        "validate": "Check a trace, and repair what can be repaired safely.",
        "convert": "Between .et, JSON and Parquet, one file or all ranks.",
        "export": "A graph as GraphML or DOT, a timeline for Perfetto.",
        "bundle": "Pack traces and their card into one file, or check one.",
        "score": "How far simulators are from a library's timed steps.",
        "conformance": "Check a reader of the format against known traces.",
    },
    "Begin": {
        "demo": "Llama-3.1-8B on 64 GPUs, simulated on two networks, compared.",
        "completion": "Print the script that lets your shell complete commands.",
    },
}
"""Heading → name → help, as `chakra` lists them; a line fits 80 columns."""
COMMANDS = {name: text for commands in GROUPS.values() for name, text in commands.items()}
"""Name → help; each is the object `command` of `chakrakit.commands.NAME`."""


class _Commands(click.Group):
    """A group that knows its commands by name and imports them when asked."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"chakrakit.commands.{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for heading, commands in GROUPS.items():
            with formatter.section(heading):
                formatter.write_dl(list(commands.items()), col_max=14)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # nobody reads on: the code of programs that the signal ends
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            ctx.exit(128 + signal.SIGPIPE)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from chakrakit.errors import nearest

            hint = nearest(args[0], COMMANDS, len(COMMANDS))
            raise click.UsageError(f"{error.message} {hint.capitalize()}", ctx) from None


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="chakrakit", prog_name="chakra")
@click.option("--debug", is_flag=True, help="Show a traceback when something goes wrong.")
def group(debug: bool) -> None:
    """Chakra execution traces, end to end. `chakra COMMAND --help` shows examples.

    A PATH is a file, a `prefix` of `prefix.N.et`, a directory, a bundle, or - for standard input.
    """


def leave(code: int) -> NoReturn:
    """Ends the process after what is to be done at its end, without tearing libraries down.

    Right after an error Arrow's threads may still be starting; the destructors of an ordinary end would then
    abort the process, and the user would see that instead of the message.
    """
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def run_server(serve: Callable[[], object]) -> NoReturn:
    """Serves until the end, which waits neither for standard input nor for what threads still compute."""
    code = 0
    try:
        serve()
    except KeyboardInterrupt:
        code = 128 + signal.SIGINT
    except SystemExit as told:
        code = told.code if isinstance(told.code, int) else 1
    if click.get_current_context().find_root().obj == _PROGRAM:
        leave(code)
    sys.exit(code)


_PROGRAM = "program"
"""What commands know of a process that is `chakra` itself, and not somebody's who called `main`."""


def main(argv: list[str] | None = None, **options: Any) -> Any:
    """Runs a command line; errors are one or two lines and exit code 2.

    A termination ends like Ctrl-C does: what was begun is removed, then the process ends.
    """
    typed = sys.argv[1:] if argv is None else argv
    asked, end, others = _parted(typed)
    try:
        arguments = [*(a for a in asked if a != "--debug"), *end, *others]
        if threading.current_thread() is threading.main_thread():
            _end_by_exceptions()
        if argv is None:
            _open_closed_streams()
        if argv is None and typed and not {"-h", "--help", "--version"}.intersection(typed):
            from chakrakit.commands.out_of_memory import check_room
            from chakrakit.start_up import keep_pandas_out

            check_room()
            keep_pandas_out()
        obj = _PROGRAM if argv is None else None
        return group.main(arguments, prog_name="chakra", obj=obj, **options)
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
    except SystemExit as ended:
        if _told and ended.code == 1:  # as click ends after Ctrl-C; 1 also says that a check failed
            sys.exit(128 + _told[0])
        raise
    except Exception as error:
        if _told:  # what was told to end in the middle of an import fails in its own way
            sys.exit(128 + _told[0])
        if "--debug" in asked or (said := _explained(error)) is None:
            raise
        click.echo(f"error: {_visible(said)}", err=True)
        if argv is None and threading.active_count() == 1:
            leave(2)
        sys.exit(2)


def _parted(typed: list[str]) -> tuple[list[str], list[str], list[str]]:
    """What was typed for `chakra` itself, a `--`, and the words of another program behind it."""
    end = typed.index("--") if "--" in typed else len(typed)
    return typed[:end], typed[end : end + 1], typed[end + 1 :]


def _end_by_exceptions() -> None:
    """Lets signals raise exceptions, so that what was begun is removed; what is ignored (nohup) stays so."""
    from chakrakit.start_up import ENDING

    for number in ENDING:
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            signal.signal(number, _end)


def _open_closed_streams() -> None:
    """Opens as nowhere what the caller closed of the three streams: the next file would get its number."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)
    # Of standard input commands say that it is closed.
    for name, number in (("stdout", 1), ("stderr", 2)):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, "w", closefd=False))


def _explained(error: Exception) -> str | None:
    """One or two lines for the user; None of an error that nobody foresaw."""
    from chakrakit.commands.out_of_memory import explained, lack_of_memory

    if (lack := lack_of_memory(error)) is not None:
        return explained(lack)
    from chakrakit.errors import ChakraError

    if isinstance(error, ChakraError | OSError):
        return _said(error)
    from chakrakit.configuration import place_in_program

    place = place_in_program(error)
    return f"{place}: {type(error).__name__}: {error}" if place else None


def _said(error: Exception) -> str:
    """The message of an error; a name that no file system takes is shown by its beginning."""
    if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
        name = str(error.filename)
        return (
            f"{name[:40]!r}… has {len(name):,} letters, too many for a file; check what was given"
        )
    if isinstance(error, FileNotFoundError) and not _has_folder():
        return "the current folder is gone; go to one that is there"
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        where = error.filename or "the output"
        return f"{where}: no space is left; free some, or write elsewhere"
    return str(error)


def _visible(text: str) -> str:
    """A text that steers no terminal, whatever names of files it holds."""
    return "".join(c if c.isprintable() or c in "\n\t" else repr(c)[1:-1] for c in text)


def _has_folder() -> bool:
    """Whether the current folder is there."""
    from pathlib import Path

    try:
        Path.cwd()
    except OSError:
        return False
    return True


_told: list[int] = []
"""The signals that told this process to end."""


_AGAIN_S = 0.05


def _end(number: int, frame: FrameType | None) -> None:
    """End by an exception; what half-made objects say while they are let go of is nobody's business."""
    _told.append(number)
    if _is_loading(frame):
        _tell_again(number)
        return
    sys.unraisablehook = partial(_unless_lost, number)
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    raise SystemExit(128 + number)


def _unless_lost(number: int, unraisable: Any) -> None:
    """An end that fell into a place which lets no exception out, such as a destructor, comes once more."""
    if isinstance(unraisable.exc_value, KeyboardInterrupt | SystemExit):
        _tell_again(number)


def _tell_again(number: int) -> None:
    timer = threading.Timer(_AGAIN_S, os.kill, (os.getpid(), number))
    timer.daemon = True  # who ends meanwhile does not wait for it
    timer.start()


def _is_loading(frame: FrameType | None) -> bool:
    """Whether a library is loaded or a file compiled: exceptions are lost in there, or abort the process."""
    while frame is not None:
        library = isinstance(frame.f_locals.get("self"), ExtensionFileLoader)
        if library or frame.f_code.co_name == SourceFileLoader.source_to_code.__name__:
            return True
        frame = frame.f_back
    return False
