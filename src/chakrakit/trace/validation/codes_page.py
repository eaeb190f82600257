"""The page of the documentation about findings, made from the table of codes."""

from __future__ import annotations

import sys

from chakrakit.trace.validation.codes import CODES


def document() -> str:
    """The page of the documentation."""
    out = [_HEAD]
    for area in dict.fromkeys(c.area for c in CODES):
        out.append(f"\n## {area.capitalize()}\n")
        out.append("| code | severity | what | why it matters | what to do |")
        out.append("|---|---|---|---|---|")
        for c in (c for c in CODES if c.area == area):
            mark = " (repaired)" if c.repaired else ""
            out.append(f"| `{c.name}`{mark} | {c.severity} | {c.what} | {c.why} | {c.cure} |")
    return "\n".join(out) + "\n"


_HEAD = """# Validation

```sh
chakra validate PATH                  # what is wrong; exit 0 if there are no errors, else 1
chakra validate PATH --json           # the same for machines
chakra validate PATH --fix -o OUT     # repairs what can be repaired, and checks the result
```

A trace is *ok* if there are no errors. Each finding has a code, a severity, the rank, the node's id and
name, and what to do. Of many alike the first 20 of a rank are listed (`--all`: all of them); `counts` is
always exact. Warnings are what makes a trace less useful: missing attributes, ranks nobody recorded.

A file is read once, in pieces. What stays in memory is a compact set of the ids, the references that
could not be resolved yet, and the communication; the rest waits in a temporary file, in case there
are dependencies on later nodes and so perhaps a cycle. A file without such dependencies cannot have one.
Dependencies whose form is start→start or finish→finish (`edge_kinds`) are checked as the schedule
follows them: a caller may hold its callee back and be held by it without that being a cycle.

Rules across ranks look at the ranks that are here. Sets in which ranks share a body are checked by body;
a finding inside a body is counted once, at the lowest rank that runs it; one across ranks says how many
more are alike.

`--fix` makes the repairs that cannot change what a trace means, and lists them. It never touches data
dependencies, since the order of the work may depend on them.

This page is made from the table of codes: `python -m chakrakit.trace.validation.codes_page`."""


if __name__ == "__main__":
    import sys

    sys.stdout.write(document())
