"""The table of attacks, walked by command."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from fuzz.attacks import ATTACKS
from fuzz.attacks.attack import walk


def main(words: list[str]) -> int:
    """Prints a row for each attack; 1 if one did not come out as it must."""
    problems = 0
    print("| case | command | exit | s | MB | |\n|---|---|---|---|---|---|")
    for attack in ATTACKS:
        if not all(word in attack.name for word in words):
            continue
        with tempfile.TemporaryDirectory() as folder:
            walked = walk(attack, Path(folder))
        problems += bool(walked.problem)
        command = attack.command.split()[0]
        figures = f"{walked.exit} | {walked.seconds:.1f} | {walked.megabytes:.0f}"
        print(f"| {attack.name} | {command} | {figures} | {walked.problem or 'ok'} |", flush=True)
    print(f"{problems} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
