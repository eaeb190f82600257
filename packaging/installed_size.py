"""How much an installation holds: files of the package and of what it requires, as its wheels unpack.

    python packaging/installed_size.py              # what `pip install chakrakit` brings: at most 250 MB
    python packaging/installed_size.py all          # and with the extra: at most 400 MB

Sizes are those of the files (10⁶ bytes to a MB) that each distribution's RECORD lists, without pip itself.
The limit of all extras holds with the bytecode that pip makes of the files after unpacking (`pip install
--no-compile` and uv make none), that of the plain installation without it. With it, what chakrakit needs
takes 254 MB before the first byte of its own 11 and 12: pyarrow 26.0 and numpy 2.4 alone take 247.
"""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

LIMITS_MB = {"": 250, "all": 400}
"""By extra: what users were promised."""
_COMPILED = ("all",)
"""Extras whose limit holds with bytecode."""
_REQUIREMENT = re.compile(r"([\w.-]+)\s*(?:\[([^\]]*)\])?")


def required(name: str, extra: str = "") -> dict[str, Distribution]:
    """A distribution and all that it needs, by name; with what an extra of it adds.

    What is not installed is not needed on this system.
    """
    distributions: dict[str, Distribution] = {}
    waiting, seen = [(name, extra)], set()
    while waiting:
        name, extra = waiting.pop()
        with contextlib.suppress(PackageNotFoundError):
            found = distribution(name)
            distributions[found.name.lower()] = found
            asked = {pair for text in found.requires or [] for pair in _asked(text, extra)}
            waiting += asked - seen
            seen |= asked
    return distributions


def _asked(text: str, extra: str) -> Iterator[tuple[str, str]]:
    """The name of what a line of the metadata asks for, alone and with each extra; none of others'."""
    of = re.search(r"""extra == ['"]([^'"]+)""", text)
    name, extras = _REQUIREMENT.match(text).groups()  # type: ignore[union-attr]  # every text has a name
    if of is None or of[1] == extra:
        yield name, ""
        yield from ((name, each.strip()) for each in (extras or "").split(",") if each.strip())


def sizes(found: Distribution) -> tuple[int, int]:
    """Bytes of a distribution's files, and of the bytecode among them."""
    files = {Path(str(file.locate())) for file in found.files or []}
    if found.name == "chakrakit" and not any(file.name == "__init__.py" for file in files):
        import chakrakit  # installed from a checkout, it lists none of them

        files |= {f for f in Path(chakrakit.__file__).parent.rglob("*") if f.is_file()}
    files = {file for file in files if file.is_file()}
    bytecode = {file for file in files if file.suffix == ".pyc"}
    return sum(f.stat().st_size for f in files - bytecode), sum(f.stat().st_size for f in bytecode)


def main(extra: str = "") -> int:
    """Prints each distribution's size, largest first; 1 if all together are too large."""
    table = {name: sizes(found) for name, found in required("chakrakit", extra).items()}
    if not table:
        print("chakrakit is not installed here; pip install it, then measure")  # noqa: T201
        return 1
    for name, (held, bytecode) in sorted(table.items(), key=lambda row: -row[1][0]):
        print(f"{name:24}{held / 1e6:8.1f} MB{bytecode / 1e6:8.1f} MB of bytecode")  # noqa: T201
    held, bytecode = (sum(row[i] for row in table.values()) / 1e6 for i in (0, 1))
    limit, compiled = LIMITS_MB[extra], held + bytecode
    print(f"{held:.1f} MB, {compiled:.1f} MB with bytecode; at most {limit} MB")  # noqa: T201
    return int((compiled if extra in _COMPILED else held) > limit)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
