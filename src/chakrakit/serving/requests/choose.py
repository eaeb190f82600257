"""What `--requests` may be: a file, or a process as `name{field=value}`."""

from __future__ import annotations

from pathlib import Path

import msgspec

from chakrakit.errors import ConfigError, nearest
from chakrakit.passes.base import split
from chakrakit.serving.requests.files import read_requests
from chakrakit.serving.requests.processes import PROCESSES, generated
from chakrakit.serving.requests.stream import Stream


def requests_from(text: str | Stream, seed: int | None = None) -> Stream:
    """The stream that a text means. A seed given here wins over the text's own."""
    if isinstance(text, Stream):
        return text
    name = text.partition("{")[0].strip()
    if name not in PROCESSES or Path(text).is_file():
        if not Path(text).is_file():
            known = ", ".join(f"{p}{{…}}" for p in PROCESSES)
            raise ConfigError(f"--requests {text}: neither a file nor one of {known}")
        return read_requests(text, seed or 0)
    _, fields = split(text, "--requests")
    if seed is not None:
        fields["seed"] = str(seed)
    try:
        process = msgspec.convert(fields, PROCESSES[name], strict=False)
    except msgspec.ValidationError as error:
        fields_of = PROCESSES[name].__struct_fields__
        wrong = [f for f in fields if f not in fields_of]
        hint = f"; {nearest(wrong[0], fields_of, 16)}" if wrong else ""
        raise ConfigError(f"--requests {text!r}: {error}{hint}") from None
    return generated(process)
