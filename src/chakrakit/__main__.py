"""`chakra`, and `python -m chakrakit`."""

from __future__ import annotations

import signal

if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # nothing was begun: Ctrl-C ends without a word

from typing import Any

from chakrakit.start_up import collect_seldom


def main() -> Any:
    """Runs the command line; the search for garbage is told first, since importing makes most objects."""
    collect_seldom()
    from chakrakit import commands

    return commands.main()


if __name__ == "__main__":
    main()
