"""`chakra view`: a run in the browser."""

from __future__ import annotations

import click


@click.command(name="view")
@click.argument("paths", metavar="RUN [OTHER]", nargs=-1, required=True)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    metavar="N",
    help="The port to listen on (default: 8127, or any free one; 0: any free one).",
)
@click.option("--no-browser", is_flag=True, help="Do not open a browser; the address is printed.")
def command(paths: tuple[str, ...], port: int | None, no_browser: bool) -> None:
    """Look at RUN in the browser: timeline at any zoom, search, dependencies, critical path, analyses.

    With OTHER, both are shown one above the other, and what differs is marked. Traces without times
    are shown in the order their dependencies allow. Serves on 127.0.0.1 only, until Ctrl-C.
    """
    from chakrakit.views.app import open_session, serve

    if len(paths) > 2:
        raise click.UsageError("one run, or two to compare")
    session = open_session(list(paths))
    serve(session, port, not no_browser, lambda at: click.echo(f"{at}  (Ctrl-C stops)"))
