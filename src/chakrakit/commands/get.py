"""`get`: a bundle of a library of traces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from chakrakit.commands.command import command as command_of
from chakrakit.commands.inputs import Path_
from chakrakit.commands.options import Option, Positional, public
from chakrakit.commands.output import Json, console, print_json, print_table

if TYPE_CHECKING:
    from chakrakit.trace.library import FetchedBundle, LibraryIndex

_FROM = Option(
    "The library: a folder with library.json, or its URL.", flags="--from", metavar="PLACE"
)
_MOST = Option("Bytes that the bundle may have.", metavar="N")


@public()
def get(
    name: Annotated[
        str, Positional("The bundle; without one, what there is.", metavar="NAME")
    ] = "",
    library: Annotated[Path_, _FROM] = ".",
    output: Annotated[Path_, Option("Put it here.", flags="-o --output", metavar="DIR")] = ".",
    most_bytes: Annotated[int, _MOST] = 8 << 30,
) -> FetchedBundle | LibraryIndex:
    """Get a bundle of a library; its size and checksum are checked before anything of it is read.

    Without a name, the library's index.

    Examples
    --------
    >>> from chakrakit.trace.library import entry_of, write_index
    >>> bundle = ck.bundle(ck.generate(model="gpt3-125m", seq=128, global_batch=1).traces, "gpt.chakra")
    >>> write_index(".", [entry_of("gpt.chakra", machine="dgx-h100")])
    >>> ck.get("gpt", ".", "here").fetched
    True

    """
    from pathlib import Path

    from chakrakit.trace.library import fetch, read_index

    index = read_index(str(library))
    return fetch(index, name, Path(output), most_bytes) if name else index


@command_of(get)
def command(
    name: Annotated[
        str, Positional("The bundle; without one, what there is.", metavar="NAME")
    ] = "",
    *,
    library: Annotated[str, _FROM] = ".",
    output: Annotated[str, Option("Put it here.", flags="-o --output", metavar="DIR")] = ".",
    most_bytes: Annotated[int, _MOST] = 8 << 30,
    json: Json = False,
) -> None:
    """Get a bundle of a library of traces: a folder, or a URL, with an index that lists checksums.

    \b
    chakra get --from https://example.org/traces
    chakra get gpt2 --from https://example.org/traces -o traces
    """
    from chakrakit.trace.library import LibraryIndex

    result = get(name, library, output, most_bytes)
    if json:
        print_json(result)
    elif isinstance(result, LibraryIndex):
        rows = [
            (e.name, e.bytes, e.machine, round(e.step_ns / 1e6, 3), e.edit, e.about)
            for e in result.bundles
        ]
        print_table(("name", "bytes", "machine", "step ms", "edit", "about"), rows)
    else:
        how = "fetched" if result.fetched else "is here already"
        console().print(f"{result.path} {how}, checksum right")
