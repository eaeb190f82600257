"""Recording: what one rank did, as plain data that crosses from the rank's process to ours.

Also here, since everything that records needs them: the errors of a capture, and `Patches`, which replaces
attributes of PyTorch while a capture lasts.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec

from chakrakit.errors import ConfigError


class CaptureError(ConfigError):
    """A script that cannot be captured unless it is changed; the text tells its author why."""


class NeedsValue(CaptureError):  # noqa: N818 - reads as what it is
    """The script asks for a value that fake tensors do not have."""


class Finished(BaseException):
    """Every step asked for is recorded: unwinds the script, past its own `except Exception`."""


_ABSENT = object()
_PACKAGE = __name__.partition(".")[0] + "."
_OWN = str(Path(__file__).parents[2])


class Patches:
    """Replaced attributes, put back in reverse order; and notes for the report, each listed once.

    `stubbed` lists what was called and did nothing or something else than usual, `warnings` what the
    reader of the trace has to know.
    """

    def __init__(self) -> None:
        self.stubbed: dict[str, None] = {}
        self.warnings: dict[str, None] = {}
        self._undo: list[Callable[[], None]] = []

    def set(self, owner: Any, name: str, value: Any) -> Any:
        """Replace an attribute; returns what was there, None for what was not."""
        before = owner.__dict__.get(name, _ABSENT) if isinstance(owner, type) else _ABSENT
        original = getattr(owner, name, None)
        if before is _ABSENT and not isinstance(owner, type):
            before = getattr(owner, name, _ABSENT)
        self._undo.append(lambda: _put_back(owner, name, before))
        setattr(owner, name, value)
        return original

    def wrap(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        """Replace a function by one made from it; nothing happens where there is none."""
        original = getattr(owner, name, None)
        if original is not None:
            wrapper = make(original)
            wrapper.__name__ = getattr(
                original, "__name__", name
            )  # some look functions up by their name
            self.set(owner, name, wrapper)

    def replace(self, original: Any, replacement: Any) -> None:
        """Replace a function or class under every name that a module, ours aside, imported it by."""
        for path, module in list(sys.modules.items()):
            if path.startswith(_PACKAGE):
                continue
            for name, value in list(getattr(module, "__dict__", {}).items()):
                if value is original:
                    self.set(module, name, replacement)

    def stub(self, owner: Any, name: str, label: str, result: Any = None) -> None:
        """Replace a function by one that does nothing and is listed once called."""

        def nothing(*_: Any, **__: Any) -> Any:
            self.note(label)
            return result

        if hasattr(owner, name):
            self.set(owner, name, nothing)

    def note(self, label: str) -> None:
        """List something that was stubbed."""
        self.stubbed.setdefault(label)

    def warn(self, text: str) -> None:
        """A warning, once."""
        self.warnings.setdefault(text)

    def on_undo(self, act: Callable[[], None]) -> None:
        """Also call `act` when everything is undone."""
        self._undo.append(act)

    def undo(self) -> None:
        """Put everything back as it was."""
        while self._undo:
            self._undo.pop()()


def _put_back(owner: Any, name: str, before: Any) -> None:
    if before is _ABSENT:
        delattr(owner, name)
    else:
        setattr(owner, name, before)


def script_line() -> str:
    """`file.py:12` of the innermost line that is neither PyTorch's, Python's nor ours."""
    frame = sys._getframe(1)
    caller: FrameType | None = frame
    while caller is not None:
        name = caller.f_code.co_filename
        if not is_library(name):
            return f"{Path(name).name}:{caller.f_lineno}"
        caller = caller.f_back
    return "the script"


def asking_line() -> str:
    """The script's line, and the line of another package that it called where that is what asks."""
    script = script_line()
    caller: FrameType | None = sys._getframe(1)
    home, _ = _pytorch()
    while caller is not None:
        path = caller.f_code.co_filename
        if not path.startswith((home, "<", sys.base_prefix + "/lib", _OWN)):
            line = f"{Path(path).parent.name}/{Path(path).name}:{caller.f_lineno}"
            return f"{script} (in {line})" if is_library(path) else script
        caller = caller.f_back
    return script


def is_library(filename: str) -> bool:
    """Whether a file belongs to an installed package, to Python itself or to chakrakit."""
    return (
        "site-packages" in filename
        or "dist-packages" in filename
        or filename.startswith(("<", sys.base_prefix + "/lib", _OWN, _pytorch()[0]))
    )


_LIKE_SCRIPTS = ("nn", "optim", "amp", "cuda")


def in_pytorch(frame: FrameType) -> bool:
    """Whether code of PyTorch's asks for which the host is the device, not modules and optimizers."""
    home, like_scripts = _pytorch()
    name = frame.f_code.co_filename
    return name.startswith(home) and not name.startswith(like_scripts)


@cache
def _pytorch() -> tuple[str, tuple[str, ...]]:
    """The folder of PyTorch, and those in it whose code asks as scripts do."""
    home = str(Path(str(sys.modules["torch"].__file__)).parent) + "/"
    return home, tuple(f"{home}{part}/" for part in _LIKE_SCRIPTS)


class Signature(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """An operator on tensors of given shapes: everything that does not differ between its calls."""

    name: str
    """As PyTorch's own traces spell it: `aten::mm`."""
    inputs_shapes: str
    inputs_types: str
    inputs_strides: str
    outputs_shapes: str
    outputs_types: str
    outputs_strides: str
    inputs_values: str
    flops: int
    """Of matrix products, convolutions and attention."""
    vector_ops: int
    """Of everything else, one per element and pass."""
    moved: int
    """Bytes that an ideal kernel reads and writes."""
    dtype: str
    op_type: str
    is_host: bool
    """Whether it only makes a view or allocates, so that no kernel runs."""
    operators: str = ""
    """What a compiler put into a kernel: `aten::add 2, aten::mul`."""


class CommCall(msgspec.Struct, array_like=True):
    """A collective or message. `kind` is a CollectiveType, or SEND or RECV of `sources.pytorch`."""

    kind: int
    group: str
    """Name of the process group in the rank's own program."""
    in_bytes: int
    out_bytes: int
    dtype: str
    peer: int = -1
    """Place of the peer, or of the root, in the group."""
    tag: int = 0
    in_splits: list[int] = []
    out_splits: list[int] = []
    line: str = ""
    """The script's line that issued it."""


FIRST_STREAM = 0
"""The stream that a program begins with, the first that is made."""


class Op(msgspec.Struct, kw_only=True, array_like=True):
    """One call of an operator. `reads` and `writes` number storages; `comm` indexes `comms` or is -1."""

    signature: int
    module: int
    phase: int
    step: int
    reads: list[int]
    writes: list[int]
    comm: int = -1
    waits_for: int = -1
    """For a wait: the operator that it completes."""
    stream: int = FIRST_STREAM
    """The program's stream that it was issued on."""
    after: list[int] = []
    """Operators of other streams that the program lets its stream wait for before it."""
    alloc: int = 0
    free: int = 0
    is_host: bool = False
    micro_batch: int = -1
    compiled: int = -1
    """The call of a compiled function that it belongs to, forward and backward; -1 for none."""


class CreatedGroup(msgspec.Struct, frozen=True, array_like=True):
    """A process group that the program created; every rank creates all of them, in the same order."""

    name: str
    """Empty if this rank is not a member."""
    ranks: tuple[int, ...]
    label: str
    """What the program calls it: a mesh dimension's name, a description, or ""."""


class Lifetimes(msgspec.Struct, array_like=True):
    """Of the storages that operators of compiled calls write; operators by their place in the recording."""

    died: dict[int, int] = {}
    """The operator after which a storage died; those that live on are not in it."""
    returned: list[int] = []
    """Storages that compiled calls handed back to the program."""

    def within(self, place: dict[int, int]) -> Lifetimes:
        """The same by other places; a death at an operator that has none is left out."""
        died = {storage: place[at] for storage, at in self.died.items() if at in place}
        return Lifetimes(died, self.returned)


class CapturedRank(msgspec.Struct, kw_only=True):
    """Everything captured of one rank."""

    rank: int
    world: int
    ops: list[Op] = []
    signatures: list[Signature] = []
    comms: list[CommCall] = []
    modules: list[str] = []
    groups: list[CreatedGroup] = []
    steps: list[int] = []
    lifetimes: Lifetimes = msgspec.field(default_factory=Lifetimes)
    parameters: int = 0
    peak_bytes: int = 0
    start_bytes: int = 0
    """Memory held when the first captured step began."""
    stubbed: list[str] = []
    warnings: list[str] = []
    mail: dict[str, bytes] = {}
    """Objects this rank sent to others; see `standins.distributed.Mail`."""
    first_digest: str = ""
    """Hash of what the rank did in its first step, by `folding.digest`."""
    failure: str = ""
    """Why nothing was recorded, as the user is to read it."""
    traceback: str = ""
    """The script's own error."""


PHASES = ("forward", "backward", "recompute", "optimizer", "other")
"""Values of `Op.phase`."""
