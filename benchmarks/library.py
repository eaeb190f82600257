"""Builds a library of traces from recordings made on an H200, and scores our simulator on it.

python benchmarks/library.py FOLDER     bundles, library.json, and the scores

Two programs were timed without recording, as they are and with time added after every linear or convolution
module of the forward pass, on the device or on the host (tests/data/pytorch/counterfactual.json). Each
bundle is the recording with the same edit made by the pass `edit`; its truth is the step that was timed.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import chakrakit as ck
from chakrakit.passes import Edit
from chakrakit.trace.library import LibraryEntry, entry_of, write_index
from chakrakit.trace.sets import Run

DATA = Path(__file__).parents[1] / "tests/data/pytorch"
MODULES = {"gpt2_124m_b8_s1024": "aten::(addmm|linear)$", "resnet50_b128": "aten::(conv2d|linear)$"}


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    measured = json.loads((DATA / "counterfactual.json").read_text())["cases"]
    entries = [entry(folder, name, edit) for name in MODULES for edit in measured[name]["edits"]]
    write_index(folder, entries)
    result = ck.score(folder)
    for one in result.scores:
        print(one.simulator, one.bundle, one.truth_ns, one.step_ns, one.error, one.failed)
    print(result.mean_error, result.worst_error, result.failed)


def entry(folder: Path, name: str, edit: dict[str, float]) -> LibraryEntry:
    """A bundle of a recording with an edit, and its line in the index."""
    added = {"device": edit["gpu_us"], "host": edit["host_us"]}
    said = [f"{us:g} us more on the {side}" for side, us in added.items() if us]
    label = "-".join([name, *(f"{side}{us:g}" for side, us in added.items() if us)])
    file = folder / f"{label}.chakra"
    file.unlink(missing_ok=True)
    ck.bundle(edited(name, added), file)
    return entry_of(
        file,
        licence="Apache-2.0",
        about="training, two steps",
        machine="dgx-h200",
        step_ns=edit["step_ms_back_to_back"] * 1e6,
        edit=", ".join(said) and f"{', '.join(said)} after each of {edit['count']} modules",
    )


def edited(name: str, added: dict[str, float]) -> Run:
    """The recording, with time added where it was added in the program."""
    at = DATA / name
    linked = ck.link(
        [at / "et.json.gz", at / "kineto.json.gz"],
        times=[at / "kineto_only.json.gz"],
        undilate=True,
    )
    traces = linked.run
    for side, us in added.items():
        if us:
            traces = traces | Edit(add_us=us, on=side, names=(MODULES[name],), phases=("forward",))
    return traces


if __name__ == "__main__":
    main(Path(sys.argv[1]))
