"""`chakra transform`: what-ifs, a pass after another."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from chakrakit.cli.shared import console, json_option, print_json, print_table
from chakrakit.errors import ConfigError

if TYPE_CHECKING:
    from chakrakit.passes.base import Applied, Transformed


@click.command(name="transform")
@click.argument("path", metavar="IN", required=False)
@click.option(
    "--pass",
    "specs",
    metavar="SPEC",
    multiple=True,
    help="name{field=value, field=[a, b]}; may be given several times, in order.",
)
@click.option("--passes", "file", metavar="FILE", help="A YAML list of passes, before any --pass.")
@click.option(
    "-o", "--output", metavar="OUT", help="A directory, or NAME.N.et for one file per rank."
)
@click.option(
    "--list", "as_list", is_flag=True, help="The passes, their fields, what each preserves."
)
@json_option
def command(
    path: str | None,
    specs: tuple[str, ...],
    file: str | None,
    output: str | None,
    as_list: bool,
    as_json: bool,
) -> None:
    """Change traces: select, compact, scale ranks, other devices and precisions, edits.

    Give passes in order; `--list` shows them all. What was done is noted in the result's card.

    \b
    chakra transform run --pass 'edit{scale=0.5, names="aten::mm$"}' --pass compact -o out
    """
    if as_list:
        return _list(as_json)
    if not path or not output or not (specs or file):
        raise ConfigError("give IN, at least one --pass or --passes FILE, and -o OUT (or --list)")
    from chakrakit.api import transform

    done = transform(path, specs, file=file, output=output).report
    if as_json:
        return print_json(done)
    _print(done, output)
    return None


def _list(as_json: bool) -> None:
    from chakrakit.passes.base import list_passes

    found = list_passes()
    if as_json:
        return print_json(found)
    out = console()
    for one in found.passes:
        out.print(f"{one.name}: {one.what}", markup=False)
        for field, kind in one.fields.items():
            out.print(f"    {field}: {kind}", markup=False)
        out.print(f"    preserves: {one.preserves}", markup=False)
    return None


def _print(done: Transformed, output: str) -> None:
    rows = [("before", done.before), *((a.spec, a.after) for a in done.applied)]
    print_table(
        ("pass", "ranks", "bodies", "nodes"),
        [(name, size.ranks, size.bodies, size.nodes) for name, size in rows],
    )
    for one in done.applied:
        _notes(one)
    out = console()
    if done.times == "dropped":
        out.print("the run's times no longer hold; simulate the result for new ones")
    out.print(f"wrote {output}", markup=False)


def _notes(one: Applied) -> None:
    """Plain notes on one line, lists of rows as tables."""
    tables = {key: value for key, value in one.notes.items() if _is_table(value)}
    plain = [
        f"{key.replace('_', ' ')} {value}"
        for key, value in one.notes.items()
        if key not in tables and value
    ]
    if plain:
        console().print(f"{one.spec}: {', '.join(plain)}", markup=False)
    for key, rows in tables.items():
        body = [tuple("" if cell is None else cell for cell in row.values()) for row in rows]
        print_table(tuple(rows[0]), body, title=f"{one.spec}: {key}")


def _is_table(value: object) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict)
