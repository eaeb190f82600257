"""What users call, in Python and from a shell: one file per command, imported when it is called.

A file has the command's options (options.py says how), its function and what it prints. `main` is `chakra`.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
from importlib import import_module
from typing import Any

import click

__all__ = ["COMMANDS", "group", "main"]

# Idle BLAS threads would burn CPU time; nothing here uses BLAS.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

COMMANDS = {
    "info": "What a trace holds: ranks, nodes, edges, groups, sizes.",
    "validate": "Check a trace, and repair what can be repaired safely.",
    "convert": "Convert between .et, JSON and Parquet, one file or all ranks.",
    "query": "Ask with SQL: nodes, edges, collectives, ranks.",
    "export": "Write a (selected) graph as GraphML or DOT, a timeline for Perfetto.",
    "link": "Link recordings of any number of ranks (PyTorch, Nsight Systems, XLA, …) into a run.",
    "collect": "Record a PyTorch program's steps and link them.",
    "capture": "Traces of a program on ranks that need not exist.",
    "machines": "List and draw machines to simulate on.",
    "models": "Models that `generate` knows by name.",
    "generate": "Traces of a model under a parallel plan, with nothing run.",
    "transform": "Change traces: select, compact, scale, other devices, edits.",
    "collective": "Time collectives on a machine, as nccl-tests would print them.",
    "simulate": "Run a workload on a machine, or as ASTRA-sim would.",
    "live": "Run programs that react: actors that decide while the simulation runs.",
    "serve": "Serve requests with a model on a machine: latencies, throughput, a Run.",
    "replay": "Run a trace on real hardware, or its communication alone.",
    "analyze": "Where the time went, what is exposed, who waits for whom, what would help.",
    "compare": "What differs between two runs, and what explains it.",
    "report": "One page about a run: HTML that works offline, JSON or Markdown.",
    "view": "Look at a run, or two, in the browser.",
    "sweep": "Run a study: workloads × machines × passes, here or on a cluster; resumable.",
    "search": "The fastest (cheapest, thriftiest) parallel plan of a model on a machine.",
    "campaign": "Months of training with failures, checkpoints and recovery.",
    "study": "A published idea against comparators that are tuned as carefully.",
    "studies": "What became of published systems; nothing is run.",
    "calibrate": "Make a compute profile or a network model from measurements.",
    "bundle": "Pack traces and the card of their workload into one file, or check one.",
    "mcp": "Serve a folder of traces and runs to agents (Model Context Protocol).",
    "conformance": "Check an implementation of the format against small traces whose facts are known.",
    "completion": "Print the script that lets your shell complete commands.",
    "demo": "Llama-3.1-8B on 64 GPUs: generated, simulated on two networks, compared, reported.",
}
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
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

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
    """Chakra execution traces, end to end.

    A PATH is a file, a `prefix` of `prefix.N.et`, a directory, a bundle, or - for standard input.
    """


def main(argv: list[str] | None = None, **options: Any) -> Any:
    """Runs a command line; errors are one or two lines and exit code 2.

    A termination ends like Ctrl-C does: what was begun is removed, then the process ends.
    """
    typed = sys.argv[1:] if argv is None else argv
    try:
        arguments = [a for a in typed if a != "--debug"]  # wherever it stands
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, _end)
        if argv is None and typed and not {"-h", "--help", "--version"}.intersection(typed):
            from chakrakit.start_up import keep_pandas_out

            keep_pandas_out()
        return group.main(arguments, prog_name="chakra", **options)
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
    except Exception as error:
        from chakrakit.commands.out_of_memory import explained, lack_of_memory
        from chakrakit.errors import ChakraError

        if "--debug" in typed or not isinstance(error, (ChakraError, OSError, MemoryError)):
            raise
        if (lack := lack_of_memory(error)) is not None:
            click.echo(f"error: {explained(lack)}", err=True)
        elif not isinstance(error, BrokenPipeError):
            click.echo(f"error: {_said(error)}", err=True)
        sys.exit(2)


def _said(error: Exception) -> str:
    """The message of an error; a name that no file system takes is shown by its beginning."""
    if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
        name = str(error.filename)
        return (
            f"{name[:40]!r}… has {len(name):,} letters, too many for a file; check what was given"
        )
    return str(error)


def _end(number: int, _frame: object) -> None:
    """End by an exception; what half-made objects say while they are let go of is nobody's business."""
    sys.unraisablehook = lambda unraisable: None
    raise SystemExit(128 + number)
