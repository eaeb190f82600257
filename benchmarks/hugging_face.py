"""Every architecture that transformers builds, from the `config.json` of its defaults to parameters.

    python benchmarks/hugging_face.py [--heads causal,masked] [--types llama,bert] [-o TABLE.csv]

The truth is the class that `architectures` names, built on the meta device by transformers: its parameters,
those that are shared once. Ours is what `chakra generate --model config.json` says of the same file: the
language model and what stands beside it. An architecture is exact, wrong, or refused with a reason.
"""

from __future__ import annotations

import argparse
import csv
import json
import signal
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from chakrakit.errors import ChakraError
from chakrakit.workloads.description import Decoder, Step
from chakrakit.workloads.generate import model_figures
from chakrakit.workloads.models import model_named

HEADS = {
    "causal": "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES",
    "image-text": "MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES",
    "multimodal": "MODEL_FOR_MULTIMODAL_LM_MAPPING_NAMES",
    "seq2seq": "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES",
    "speech": "MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES",
    "masked": "MODEL_FOR_MASKED_LM_MAPPING_NAMES",
    "image": "MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES",
}
MOST_SECONDS = 180


def architectures(heads: list[str], types: set[str]) -> Iterator[tuple[str, str, str]]:
    """Head, model_type and class of everything to try; a class once."""
    from transformers.models.auto import modeling_auto

    seen = set()
    for head in heads:
        for kind, names in getattr(modeling_auto, HEADS[head]).items():
            name = names if isinstance(names, str) else names[0]
            if name not in seen and (not types or kind in types):
                seen.add(name)
                yield head, kind, name


def truth(kind: str, name: str) -> tuple[dict[str, Any], int]:
    """The configuration of a class with its defaults, and the parameters of what is built from it."""
    import torch
    import transformers

    config = transformers.CONFIG_MAPPING[kind]()
    if getattr(transformers, name).config_class is not type(config):
        raise TypeError(f"{name} is built from a part of this configuration")
    config.architectures = [name]
    with torch.device("meta"):
        model = getattr(transformers, name)(config)
    return json.loads(config.to_json_string(use_diff=False)), sum(
        p.numel() for p in model.parameters()
    )


def ours(content: dict[str, Any], folder: str) -> int:
    """Parameters of the file as chakrakit reads it."""
    path = Path(folder) / "config.json"
    path.write_text(json.dumps(content))
    model = model_named(str(path))
    kind = "prefill" if isinstance(model, Decoder) else "forward"
    figures = model_figures(model, Step(kind=kind))
    return figures.parameters + figures.vision_parameters


def compared(kind: str, name: str, folder: str) -> tuple[str, str]:
    """What came of an architecture, and why."""
    try:
        content, expected = truth(kind, name)
    except Exception as error:  # not every default can be built
        return "unbuildable", f"{type(error).__name__}: {error!s:.150}"
    try:
        found = ours(content, folder)
    except ChakraError as error:
        return "refused", str(error).replace(folder, "")
    except Exception as error:  # which is what this looks for
        return "CRASHED", f"{type(error).__name__}: {error!s:.200}"
    if found == expected:
        return "exact", f"{expected:,}"
    return "WRONG", f"{found:,} instead of {expected:,} ({found / expected - 1:+.3%})"


def _too_long(*_: object) -> None:
    raise TimeoutError(f"more than {MOST_SECONDS} s")


def main() -> int:
    """Tries all and prints what is not exact."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--heads", default=",".join(HEADS))
    parser.add_argument("--types", default="")
    parser.add_argument("-o", "--out", default="")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGALRM, _too_long)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for head, kind, name in architectures(
            args.heads.split(","), set(filter(None, args.types.split(",")))
        ):
            start = time.process_time()
            signal.alarm(MOST_SECONDS)
            state, why = compared(kind, name, folder)
            signal.alarm(0)
            rows.append((head, kind, name, state, why, f"{time.process_time() - start:.1f}"))
            print(f"{rows[-1][-1]:>6} s {head:10} {kind:28} {state:11} {why}", flush=True)
    if args.out:
        with Path(args.out).open("w", newline="") as file:
            csv.writer(file).writerows(rows)
    print(Counter((row[0], row[3]) for row in rows))
    print(Counter(row[3] for row in rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
