"""A lack of memory is a message that says what was needed and what there was."""

from __future__ import annotations

import numpy as np
import pytest

from chakrakit.commands.out_of_memory import explained, lack_of_memory
from chakrakit.errors import TraceError
from support.commands import chakra


def test_what_numpy_asked_for_is_said() -> None:
    with pytest.raises(MemoryError) as error:
        np.zeros(1 << 46)
    assert explained(error.value).startswith("512. TiB more were needed at once")


def test_what_arrow_asked_for_is_said() -> None:
    said = explained(MemoryError("malloc of size 4294967296 failed"))
    assert said.startswith("4.0 GiB more were needed at once than there is memory for beside the")


def test_a_lack_that_was_taken_for_something_else_is_found() -> None:
    def cast() -> None:
        try:
            raise MemoryError("malloc of size 10 failed")
        except MemoryError:
            raise TraceError("column 'x' should be string") from None

    with pytest.raises(TraceError) as error:
        cast()
    assert isinstance(lack_of_memory(error.value), MemoryError)
    assert lack_of_memory(ValueError("x")) is None


def test_a_command_without_memory_ends_with_the_message(monkeypatch: pytest.MonkeyPatch) -> None:
    def lack(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr("chakrakit.machines.load_machine", lack)
    done = chakra("machines", "dgx-h100")
    assert done.exit_code == 2
    assert "more memory was needed than there is" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_library_that_finds_no_room_is_a_lack_of_memory() -> None:
    error = ImportError("libarrow.so.2600: failed to map segment from shared object")
    assert isinstance(lack_of_memory(error), MemoryError)
    assert lack_of_memory(ImportError("no such module")) is None
