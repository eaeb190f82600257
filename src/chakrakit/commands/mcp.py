"""`mcp`: a server of the Model Context Protocol, so that agents can ask what commands answer.

Every tool calls a public function and gives what `--json` prints, or the sections of it that were asked for.
Nothing is written unless the server was started with `--write`, and no path outside its folder is opened.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial, wraps
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click
import msgspec

import chakrakit as ck
from chakrakit.commands import run_server
from chakrakit.commands.command import command as command_of
from chakrakit.commands.options import Option, Positional
from chakrakit.commands.query import answered
from chakrakit.errors import ChakraError, ConfigError, MissingExtra

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

LARGEST_ANSWER = (
    100_000  # characters: about a quarter of what an agent can hold; sections make it smaller
)
LONGEST_QUERY_S = 60.0
"""A question that a recursion or a product of tables never ends is given up after this."""
INSTRUCTIONS = """Chakra execution traces: how distributed AI workloads behave, recorded or made up.
Begin with list_files. info says what a path holds, analyze where the time went, query answers in SQL.
Times are in nanoseconds unless a name says otherwise, sizes in bytes. A question whose answer is in no result
cannot be answered from these files: say so instead of estimating."""

Answer = dict[str, Any]


class Folder:
    """The one folder whose files a server opens."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve(strict=True)

    def path(self, text: str) -> Path:
        """A path of files below the folder; refused where it, or a link among them, leads elsewhere."""
        path = self.place(text)
        for link in _links(path):
            self.place(str(link))
        return path

    def place(self, text: str) -> Path:
        """A place below the folder, links followed; refused where it leads elsewhere."""
        if "\0" in text:
            raise ConfigError(f"{text!r} is no path; list_files says what is in the served folder")
        path = (self.root / text).resolve()
        if not path.is_relative_to(self.root):
            raise ConfigError(
                f"{text} is outside of the served folder; list_files says what is in it"
            )
        return path

    def machine(self, name: str) -> str:
        """A preset, or the path of a machine's file below the folder."""
        from chakrakit.machines import parse_name

        return name if parse_name(name)[0] is not None else str(self.path(name))

    def entries(self, below: str) -> list[Answer]:
        """Files and folders directly below a folder, with their sizes."""
        folder = self.place(below)
        if not folder.is_dir():
            raise ConfigError(f"{below} is not a folder; info says what a file holds")
        return [
            {
                "path": str(entry.relative_to(self.root)),
                "kind": "folder" if entry.is_dir() else "file",
                "bytes": entry.stat().st_size if entry.exists() else 0,
            }
            for entry in sorted(folder.iterdir())
            if not entry.name.startswith(".") and entry.resolve().is_relative_to(self.root)
        ]


def _links(path: Path) -> Iterator[Path]:
    """Links among the files that a path stands for: those below a folder, or those that begin alike."""
    alike = path.parent.glob(f"{escape(path.name)}*") if path.parent.is_dir() else ()
    return (p for p in (path.rglob("*") if path.is_dir() else alike) if p.is_symlink())


class Tools:
    """What an agent may ask; each method is a tool, its docstring what the agent reads."""

    def __init__(self, folder: Folder, may_write: bool) -> None:
        self.folder = folder
        self.may_write = may_write

    def list_files(self, folder: str = ".") -> Answer:
        """List what lies in a folder: traces, runs, recordings, bundles."""
        return {"entries": self.folder.entries(folder)}

    def info(self, path: str) -> Answer:
        """Say what a trace or run holds: ranks, nodes, edges, types, groups, communication, card."""
        return _plain(ck.info(self.folder.path(path)))

    def validate(self, path: str) -> Answer:
        """Check a trace or run; findings have a code, a severity, a place and a cure."""
        return _plain(ck.validate(self.folder.path(path)))

    def query(self, path: str, sql: str, limit: int = 200) -> Answer:
        """Ask with one SELECT (DuckDB) over nodes, edges, collectives, calls, messages, ranks, groups.

        nodes: rank, row, id, name, type, start_ns, duration_ns, end_ns, every attribute (num_ops, comm_size,
        stream, step, ...); calls: instance, "group", seq, rank, id, start_ns, end_ns.
        """
        return _plain(answered(self.folder.path(path), sql, limit, seconds=LONGEST_QUERY_S))

    def analyze(self, path: str, sections: Sequence[str] = ("answers",)) -> Answer:
        """Say where the time of a run went, in the sections that are asked for.

        Sections: answers (what bounds the run, steps, breakdown by rank, whether memory fits, notes),
        critical_path, communication, stragglers, culprits, operators, launches, roofline, memory, what_if,
        serving, storage, footprint.
        """
        return _sections(_plain(ck.analyze(self.folder.path(path))), sections)

    def what_if(self, path: str, faster: Mapping[str, float] | None = None) -> Answer:
        """Schedule a run again with parts made k times faster, and say what that saves.

        `faster` is {"communication": 2}, {"compute": 1.5}, or a pattern of names: {"gemm": 2}.
        """
        if not faster:
            raise ConfigError(
                'give `faster`, what is how many times faster: {"communication": 2}, {"compute": 1.5}, or a '
                'pattern of names such as {"gemm": 2}'
            )
        analysis = _plain(ck.analyze(self.folder.path(path), faster=dict(faster)))
        return _sections(analysis, ("what_if", "notes"))

    def compare(self, a: str, b: str) -> Answer:
        """Compare run b with run a: the step, what explains its change, operators, groups."""
        return _plain(ck.compare(self.folder.path(a), self.folder.path(b)))

    def simulate(self, path: str, machine: str, output: str = "") -> Answer:
        """Simulate a workload on a machine, such as "dgx-h100:4" or the path of a machine's file.

        With `output` the run is kept at that path, where the server was started with --write.
        """
        if output and not self.may_write:
            raise ConfigError("this server only reads: start it with --write to keep runs")
        kept = self.folder.path(output) if output else None
        place = self.folder.machine(machine)
        return _plain(ck.simulate(self.folder.path(path), place, output=kept).summary)

    def machines(self, name: str = "") -> Answer:
        """List machines to simulate on, or describe one."""
        return _plain(ck.list_machines(self.folder.machine(name) if name else None))

    def all(self) -> list[Callable[..., Awaitable[Answer]]]:
        """The tools, in the order in which they are listed."""
        names = "list_files info validate query analyze what_if compare simulate machines"
        return [_tool(getattr(self, name)) for name in names.split()]


def _tool(tool: Callable[..., Answer]) -> Callable[..., Awaitable[Answer]]:
    """The tool with our errors as answers that an agent can act on, and answers of a bounded size.

    It runs in a thread that nobody waits for once the agent took its question back, or went away.
    """
    from anyio.to_thread import run_sync

    @wraps(tool)
    async def asked(**arguments: Any) -> Answer:
        return await run_sync(partial(_bounded, tool, **arguments), abandon_on_cancel=True)

    return asked


def _bounded(tool: Callable[..., Answer], **arguments: Any) -> Answer:
    from mcp.server.mcpserver.exceptions import ToolError

    try:
        answer = tool(**arguments)
    except (ChakraError, OSError) as error:
        raise ToolError(str(error)) from None
    size = len(msgspec.json.encode(answer))
    if size > LARGEST_ANSWER:
        raise ToolError(
            f"the answer has {size:,} characters, more than {LARGEST_ANSWER:,}: ask for fewer sections, "
            "or for sums with query"
        )
    return answer


def _plain(result: Any) -> Answer:
    answer: Answer = msgspec.to_builtins(result, str_keys=True)
    return answer


ANSWERS = (
    *("name", "span_ns", "bound", "bound_uncertain", "warning", "notes", "steps", "fits"),
    *("needs_bytes", "has_bytes", "culprits", "delays", "recording", "ranks"),
)
"""What the first screen says: the sections of an analysis that are small whatever the run."""


def _sections(analysis: Answer, names: Sequence[str]) -> Answer:
    wanted = [field for name in names for field in (ANSWERS if name == "answers" else [name])]
    missing = [name for name in wanted if name not in analysis]
    if missing:
        raise ConfigError(
            f"an analysis has no section {missing[0]}; it has answers, {', '.join(analysis)}"
        )
    return {name: analysis[name] for name in wanted}


def server_of(folder: Path, may_write: bool = False) -> MCPServer[Any]:
    """A server over the files of one folder."""
    try:
        from mcp.server.mcpserver import MCPServer
        from mcp.types import ToolAnnotations
    except ImportError:
        raise MissingExtra("chakra mcp", "mcp") from None
    server: MCPServer[Any] = MCPServer(
        "chakrakit", version=ck.__version__, instructions=INSTRUCTIONS, log_level="WARNING"
    )
    for tool in Tools(Folder(folder), may_write).all():
        reads = not (may_write and tool.__name__ == "simulate")
        server.add_tool(
            tool, annotations=ToolAnnotations(read_only_hint=reads), structured_output=True
        )
    return server


@command_of()
def command(
    folder: Annotated[
        Path, Positional("The folder whose files may be opened.", metavar="FOLDER")
    ] = Path(),
    *,
    write: Annotated[bool, Option("Let agents keep simulated runs in the folder.")] = False,
) -> None:
    """Serve the files of a folder to agents, over standard input and output (Model Context Protocol).

    \b
    An agent's settings: {"command": "chakra", "args": ["mcp", "/path/to/runs"]}

    \b
    chakra mcp .
    chakra mcp /path/to/runs
    """
    server = server_of(Path(folder), write)
    if sys.stdin.isatty():
        click.echo(
            "Waiting for an agent on standard input (Ctrl-D stops). Agents start this\n"
            "command themselves: see chakra mcp --help.",
            err=True,
        )
    run_server(lambda: server.run("stdio"))
