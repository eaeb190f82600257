"""Options, each declared once: what a command takes in Python, on the command line and on a card.

A command's options are the fields of a `TypedDict`, its arguments the parameters of its function:

    class AnalyzeOptions(TypedDict, total=False):
        peak_gbps: Annotated[float, Option("Peak of the device's memory in GB/s.", 0.0)]

    @public(AnalyzeOptions)
    def analyze(run: Annotated[Traces, Positional("A Run.")], **options: Unpack[AnalyzeOptions]) -> Analysis:

`public` makes the function's signature and the `Parameters` of its docstring, `command` (command.py) the
options of the command line, `settings_of` what a run's card says. Type checkers read the `TypedDict` itself.
"""

from __future__ import annotations

import ast
import inspect
import math
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, wraps
from types import UnionType
from typing import (
    Annotated,
    Any,
    ForwardRef,
    Literal,
    NamedTuple,
    NotRequired,
    Required,
    TypeVar,
    Union,
    get_args,
    get_origin,
)

from chakrakit.errors import ConfigError, nearest

OUTPUT = "Output"
"""The heading of options that say where results go and how they look."""
REQUIRED: Any = inspect.Parameter.empty
"""The default of what must be given."""

Function = TypeVar("Function", bound=Callable[..., Any])


class Option(NamedTuple):
    """An option's help, default and spelling, beside its name and type.

    A `bool` is a switch: `--name` where it is false by default, else `--name/--no-name`. An option whose
    default is `()` may be given several times. A `Literal` lists its choices; numbers are numbers; all
    else is text on the command line.
    """

    help: str
    """One sentence or two, for the command line; `--other-option` becomes `other_option` in Python."""
    default: Any = REQUIRED
    """Of a field; a parameter has its own."""
    flags: str = ""
    """How it is spelled, as in `-o --output`; by default `--name`."""
    metavar: str | None = None
    group: str = ""
    """The heading under which `--help` lists it."""
    parse: Callable[[Any], Any] | None = None
    """Makes a value of text, or of all texts where it may be given several times. It raises a ValueError that
    says what to give; values other than text are left alone."""
    joined: bool = False
    """Whether several values are one word on the command line, with commas."""
    least: int | None = None
    most: int | None = None
    words: int = 1
    """How many words follow it on the command line; -1 for any number of them, of an argument."""
    on_card: bool = True
    """Whether it decides what comes out: not where it goes, nor how fast."""
    in_shell: bool = True
    """Whether the command line has it."""


class Positional(Option):
    """A word of the command line that is known by its place."""


class Parameter(NamedTuple):
    """An option or argument with its name, type and default."""

    name: str
    type: Any
    """The type, or its text where a name in it is imported for type checkers alone."""
    default: Any
    option: Option
    kind: Any = inspect.Parameter.KEYWORD_ONLY

    @property
    def is_required(self) -> bool:
        """Whether there is no default."""
        return self.default is REQUIRED

    @property
    def is_repeated(self) -> bool:
        """Whether it may be given several times."""
        return isinstance(self.default, tuple) and not self.option.joined

    @property
    def alternatives(self) -> tuple[Any, ...]:
        """The types it may have, None apart."""
        if get_origin(self.type) not in (Union, UnionType):
            return (self.type,)
        return tuple(kind for kind in get_args(self.type) if kind is not type(None))

    @property
    def is_switch(self) -> bool:
        """Whether it takes no value on the command line."""
        return self.alternatives == (bool,)

    @property
    def choices(self) -> tuple[Any, ...]:
        """The values it may have, where its type lists them."""
        kind = self.alternatives[0]
        return get_args(kind) if get_origin(kind) is Literal else ()

    @property
    def spellings(self) -> list[str]:
        """All spellings on the command line, the long one last."""
        if self.option.flags:
            return self.option.flags.split()
        word = self.name.replace("_", "-")
        may_be_off = self.is_switch and self.default is not False
        return [f"--{word}/--no-{word}" if may_be_off else f"--{word}"]

    @property
    def flag(self) -> str:
        """Its long spelling."""
        return self.spellings[-1].partition("/")[0]

    def value_of(self, value: Any) -> Any:
        """The value, checked; text is parsed, and one alone becomes the only one of several."""
        if value is None and isinstance(self.default, tuple):
            return self.default
        if isinstance(value, Mapping):
            return value
        if self.is_repeated:
            alone = isinstance(value, str | os.PathLike) or not isinstance(value, Iterable)
            value = (value,) if alone else tuple(value)
        texts = value if self.is_repeated else (value,)
        if self.option.parse is not None and texts and all(isinstance(t, str) for t in texts):
            value = self._parsed(value)
        self._check(value)
        return value

    def _parsed(self, value: Any) -> Any:
        assert self.option.parse is not None
        try:
            return self.option.parse(value)
        except ValueError as error:
            words = " ".join(value) if self.is_repeated else value
            raise ConfigError(f"{self.flag} {words}: {error}") from None

    def _check(self, value: Any) -> None:
        if value is self.default:
            return
        if self.choices and value is not None and value not in self.choices:
            raise ConfigError(f"{self.flag} {value}: {nearest(value, self.choices)}")
        if isinstance(value, float) and not math.isfinite(value):
            raise ConfigError(f"{self.flag} {value}: give a finite number")
        least, most = self.option.least, self.option.most
        if least is None or not isinstance(value, int | float):
            return
        if value < least or (most is not None and value > most):
            limits = f"{least} or more" if most is None else f"{least} to {most}"
            raise ConfigError(f"{self.flag} {value}: give {limits}")


# --- reading declarations -----------------------------------------------------------------------


def fields_of(struct: type) -> list[Parameter]:
    """The options that a `TypedDict` declares, those it inherits first."""
    parameters = []
    for name, reference in struct.__annotations__.items():
        home = getattr(reference, "__forward_module__", None) or struct.__module__
        kind, option = _read_in(reference, home)
        assert option is not None, f"{struct.__name__}.{name} has no Option"
        parameters.append(Parameter(name, kind, option.default, option))
    return parameters


def arguments_of(function: Callable[..., Any]) -> list[Parameter]:
    """The parameters of a function that have an `Option` or `Positional`."""
    unwrapped: Any = inspect.unwrap(function)
    parameters = []
    for name, parameter in inspect.signature(unwrapped).parameters.items():
        kind, option = _read(parameter.annotation, unwrapped.__globals__)
        if option is not None:
            parameters.append(Parameter(name, kind, parameter.default, option, parameter.kind))
    return parameters


def parameters_of(function: Callable[..., Any]) -> list[Parameter]:
    """All options and arguments of a public function."""
    parameters: list[Parameter] = function.__dict__["parameters"]
    return parameters


@cache
def _read_in(annotation: Any, module: str) -> tuple[Any, Option | None]:
    """What an annotation of a module says; structs that inherit it repeat it word for word."""
    return _read(annotation, vars(sys.modules[module]))


def _read(annotation: Any, names: dict[str, Any]) -> tuple[Any, Option | None]:
    """The type and the option of `Annotated[type, option]`."""
    is_reference = isinstance(annotation, ForwardRef)
    text = annotation.__forward_arg__ if is_reference else annotation
    try:
        # A reference was compiled when it was made, which takes longer than all else here.
        code = annotation.__forward_code__ if is_reference else annotation
        kind = eval(code, names) if isinstance(text, str) else annotation
    except NameError:  # a type that only type checkers import
        return _read_text(text, names)
    while get_origin(kind) in (Required, NotRequired):
        (kind,) = kind.__args__
    if get_origin(kind) is Annotated:
        return kind.__origin__, kind.__metadata__[0]
    return kind, None


def _read_text(annotation: str, names: dict[str, Any]) -> tuple[str, Option | None]:
    tree: Any = ast.parse(annotation, mode="eval").body
    while _is_of(tree, "Required") or _is_of(tree, "NotRequired"):
        tree = tree.slice
    if not _is_of(tree, "Annotated"):
        return annotation, None
    kind, option = tree.slice.elts
    kind_text = annotation.encode()[kind.col_offset : kind.end_col_offset].decode()
    return kind_text, eval(compile(ast.Expression(option), "<annotation>", "eval"), names)


def _is_of(tree: ast.expr, name: str) -> bool:
    """Whether a type is `name[…]`."""
    return (
        isinstance(tree, ast.Subscript)
        and isinstance(tree.value, ast.Name)
        and tree.value.id == name
    )


# --- public functions ---------------------------------------------------------------------------


def public(*structs: type | list[Parameter], others: str = "") -> Callable[[Function], Function]:
    """A function whose keywords are the options of these structs; `others` takes keywords of any name.

    It is called with all of them: those that are left out have their defaults, and text is parsed.
    """

    def decorate(function: Function) -> Function:
        options = [p for s in structs for p in (s if isinstance(s, list) else fields_of(s))]
        parameters = [*arguments_of(function), *{p.name: p for p in options}.values()]
        signature = _signature(function, parameters, others)

        @wraps(function)
        def called(*arguments: Any, **keywords: Any) -> Any:
            bound = _bound(function.__name__, signature, arguments, keywords)
            for parameter in parameters:
                value = bound.arguments[parameter.name]
                if parameter.kind is not parameter.kind.VAR_POSITIONAL:
                    bound.arguments[parameter.name] = parameter.value_of(value)
            return function(*bound.args, **bound.kwargs)

        called.__dict__.update(parameters=parameters, __signature__=signature)
        called.__doc__ = _documented(inspect.getdoc(function) or "", parameters)
        called.__annotations__ = {p.name: p.type for p in parameters} | {
            "return": signature.return_annotation
        }
        return called  # type: ignore[return-value]

    return decorate


def _signature(
    function: Callable[..., Any], parameters: list[Parameter], open_name: str
) -> inspect.Signature:
    signature = inspect.signature(function)
    kinds = inspect.Parameter
    by_name = [p for p in parameters if p.kind is kinds.KEYWORD_ONLY]
    by_place = [p for p in parameters if p.kind is not kinds.KEYWORD_ONLY]
    inspected = [
        kinds(p.name, p.kind, default=p.default, annotation=p.type) for p in (*by_place, *by_name)
    ]
    if open_name:
        inspected.append(kinds(open_name, kinds.VAR_KEYWORD, annotation=Any))
    return signature.replace(parameters=inspected)


def _bound(
    name: str, signature: inspect.Signature, arguments: Any, keywords: Mapping[str, Any]
) -> inspect.BoundArguments:
    names = signature.parameters
    open_ended = any(p.kind is p.VAR_KEYWORD for p in names.values())
    for keyword in () if open_ended else keywords:
        if keyword not in names:
            raise ConfigError(f"{name} has no option {keyword!r}; {nearest(keyword, names)}")
    bound = signature.bind(*arguments, **keywords)
    bound.apply_defaults()
    return bound


_SECTIONS = tuple(f"\n{name}\n---" for name in ("Returns", "Examples", "Notes"))
_INDENT = "    "
_WIDTH = 96  # columns of a docstring: what `help()` shows beside its indentation in 100 columns


def _documented(text: str, parameters: list[Parameter]) -> str:
    """A docstring with its parameters before the first section."""
    if not parameters:
        return text
    at = min((start + 1 for s in _SECTIONS if (start := text.find(s)) >= 0), default=len(text))
    names = {spelling: p.name for p in parameters for spelling in p.spellings}
    lines = ["Parameters", "----------"]
    for parameter in parameters:
        sentence = _in_python(_explained(parameter), names)
        lines += [parameter.name, *_wrapped(sentence)]
    return "\n".join([text[:at].rstrip(), "", *lines, "", text[at:]])


def _wrapped(sentence: str) -> Iterator[str]:
    """Indented lines of whole words; textwrap, which also breaks words, takes six times as long."""
    line = ""
    for word in sentence.split():
        if line and len(_INDENT) + len(line) + 1 + len(word) > _WIDTH:
            yield _INDENT + line
            line = word
        else:
            line = f"{line} {word}" if line else word
    if line:
        yield _INDENT + line


def _explained(parameter: Parameter) -> str:
    """An option's help, with what the command line shows around it: its heading and its spelling."""
    option = parameter.option
    text = f"{option.group}: {option.help}" if option.group.startswith("With ") else option.help
    if not parameter.is_repeated or not option.metavar:
        return text
    kinds = (str(kind).partition("[")[0] for kind in parameter.alternatives)
    mapped = ", or a mapping" if any(kind.endswith("Mapping") for kind in kinds) else ""
    return f"{text} A list of `{option.metavar}`{mapped}."


_FLAG = re.compile(r"(?<![\w-])(--?[a-z][a-z-]*)")


def _in_python(text: str, names: Mapping[str, str]) -> str:
    """Help as Python says it: `--two-words` is `two_words`; what stands in backticks stays.

    `names` are the options by their spellings.
    """

    def in_backticks(match: re.Match[str]) -> str:
        flag = match[1]
        if flag not in names and not flag.startswith("--"):
            return flag
        return f"`{names.get(flag, flag[2:].replace('-', '_'))}`"

    parts = text.split("`")
    return "`".join(p if i % 2 else _FLAG.sub(in_backticks, p) for i, p in enumerate(parts))


# --- passing options on -------------------------------------------------------------------------


def picked(kind: Callable[..., Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the options that a struct or function of another room takes under the same name."""
    return {n: options[n] for n in inspect.signature(kind).parameters if n in options}


def changed(struct: type, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that do not have their defaults, as the parameters of a call."""
    return {
        p.name: options[p.name]
        for p in fields_of(struct)
        if p.name in options and options[p.name] != p.value_of(p.default)
    }


def settings_of(struct: type, options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what a run's card records: options that differ from their defaults, as plain values."""
    card_names = {p.name for p in fields_of(struct) if p.option.on_card}
    non_defaults = changed(struct, options)
    return {name: _plain(value) for name, value in non_defaults.items() if name in card_names}


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, Iterable):
        return [_plain(inner) for inner in value]
    return getattr(value, "name", type(value).__name__)
