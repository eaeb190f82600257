"""Pages of the site that are made from the package: commands, Python, architecture, changes.

A hook of mkdocs. What `--help` and docstrings say is written once; these pages repeat it by construction.
"""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import click

import chakrakit as ck
from chakrakit.commands import COMMANDS
from chakrakit.commands.command import explain_all

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

ROOT = Path(__file__).parents[1]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages that no file in docs/ holds."""
    from mkdocs.structure.files import File

    pages = {
        "reference/commands.md": commands_page(),
        "reference/python.md": python_page(),
        "reference/architecture.md": page_of("ARCHITECTURE.md"),
        "reference/changes.md": page_of("CHANGELOG.md"),
    }
    for name, text in pages.items():
        files.append(File.generated(config, name, content=text))
    studies = [f for f in files if re.fullmatch(r"studies/(?!README).*\.md", f.src_uri)]
    for page in studies:  # reached from the table of studies, too many for the menu
        page.inclusion = type(page.inclusion).NOT_IN_NAV
    return files


def commands_page() -> str:
    """Every command with what `--help` prints, all options explained."""
    parts = ["# Commands\n\nWhat `chakra COMMAND --help` prints, for every command.\n"]
    for name in COMMANDS:
        command: click.Command = import_module(f"chakrakit.commands.{name}").command
        context = click.Context(command, info_name=f"chakra {name}", max_content_width=100)
        context.terminal_width = 100
        explain_all(context)
        parts.append(f"## {name}\n\n```text\n{command.get_help(context)}\n```\n")
    return "\n".join(parts)


def python_page() -> str:
    """Every public name of the package with its signature and docstring."""
    parts = ["# Python\n\n`import chakrakit as ck`; names in the order of the alphabet.\n"]
    for name in sorted(ck.__all__, key=str.lower):
        value = getattr(ck, name)
        text = inspect.getdoc(value) if callable(value) else None
        if text is None:
            continue
        parts.append(
            f"## {name}\n\n```python\n{_signature(name, value)}\n```\n\n```text\n{text}\n```\n"
        )
    return "\n".join(parts)


def _signature(name: str, value: object) -> str:
    try:
        parameters = inspect.signature(value).parameters.values()  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return f"ck.{name}"
    stated = [p.name if p.default is p.empty else f"{p.name}={p.default!r}" for p in parameters]
    one_line = f"ck.{name}({', '.join(stated)})"
    return (
        one_line if len(one_line) <= 96 else f"ck.{name}(\n    " + ",\n    ".join(stated) + ",\n)"
    )


def page_of(name: str) -> str:
    """A page of the repository, with its links to docs/ made relative to the site."""
    return re.sub(r"\]\((?:docs/)([^)]+)\)", r"](../\1)", (ROOT / name).read_text())
