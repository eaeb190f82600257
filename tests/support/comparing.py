"""Sets of traces side by side: what differs, in words; nothing where they are the same."""

from __future__ import annotations

from pathlib import Path

from chakrakit.trace.storage import write


def differences(one, other):
    """Groups and their order, ranks, bindings and every column of every body."""
    found = []
    if list(one.groups.items()) != list(other.groups.items()):
        found.append("groups")
    if list(one.bindings.items()) != list(other.bindings.items()):
        found.append("bindings")
    if one.body_count != other.body_count:
        return [*found, "number of bodies"]
    for number in range(one.body_count):
        a, b = one.body_at(number).nodes, other.body_at(number).nodes
        for name in dict.fromkeys([*a.column_names, *b.column_names]):
            here = name in a.column_names and name in b.column_names
            if not here or not a[name].equals(b[name]):
                found.append(f"{name} of body {number}")
    return found


def files(traces, folder: Path):
    """Every file of a written set but the card, which tells what was done."""
    write(traces, folder)
    found = {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    return {str(name): data for name, data in found.items() if str(name) != "card.json"}
