"""`chakra`, and `python -m chakrakit`."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` itself imports so much that Ctrl-C falls into it

if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)  # nothing was begun: the end needs no word

from typing import Any

from chakrakit.start_up import collect_seldom


def main() -> Any:
    """Runs the command line; the search for garbage is told first, since importing makes most objects."""
    collect_seldom()
    from chakrakit import commands

    return commands.main()


if __name__ == "__main__":
    main()
