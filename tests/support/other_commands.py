"""Every command that only prints, or serves until it is stopped; inputs are those of commands that write."""

from __future__ import annotations

from support.interrupting import Command

_COUNT = "SELECT type, count(*) FROM nodes GROUP BY type"

_ALL = [
    Command("models", ("models",), prints=True),
    Command("machines", ("machines", "dgx-h100:4"), prints=True),
    Command("collective", ("collective", "all-reduce", "--machine", "dgx-h100", "--members", "8",
                           "--sizes", "1KiB:1GiB"), prints=True),
    Command("analyze", ("analyze", "{in}/run"), prints=True),
    Command("compare", ("compare", "{in}/run", "{in}/other"), prints=True),
    Command("query", ("query", "{in}/run", _COUNT), prints=True),
    Command("studies", ("studies",), prints=True),
    Command("info", ("info", "{in}/before"), prints=True),
    Command("validate", ("validate", "{in}/w"), prints=True),
    Command("list", ("get", "--from", "{in}/library"), prints=True),
    Command("score", ("score", "{in}/library"), prints=True),
    Command("completion", ("completion", "bash"), prints=True),
    Command("view", ("view", "{in}/run", "--port", "0", "--no-browser"), serves=True),
    Command("mcp", ("mcp", "{in}"), serves=True),
]  # fmt: skip
OTHERS = {command.name: command for command in _ALL}
