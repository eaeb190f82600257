"""A public function as a command: its options on the command line, in groups, with their defaults."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import click

from chakrakit.commands.options import (
    OUTPUT,
    Option,
    Parameter,
    Positional,
    arguments_of,
    parameters_of,
)
from chakrakit.commands.terminal import columns


def command(
    *functions: Callable[..., Any], without: Iterable[str] = (), **settings: Any
) -> Callable[[Callable[..., None]], GroupedCommand]:
    """Makes a command of a function that calls public functions and prints what they give.

    The command has their options, but those named in `without`, and those of its own parameters, which
    replace others of the same name; its help is its docstring. `settings` are click's.
    """

    def decorate(prints: Callable[..., None]) -> GroupedCommand:
        own_parameters = arguments_of(prints)
        left_out = {*without, *(p.name for p in own_parameters)}
        parameter_of_name = {p.name: p for function in functions for p in parameters_of(function)}
        parameters = [
            p for n, p in parameter_of_name.items() if n not in left_out and p.option.in_shell
        ] + own_parameters
        name = prints.__module__.rpartition(".")[2]
        return GroupedCommand(
            name,
            parameters,
            callback=prints,
            help=prints.__doc__ or "",
            context_settings={"max_content_width": 110} | settings,
        )

    return decorate


class _Formatter(click.HelpFormatter):
    """Click's, which is told how wide the terminal is."""

    def __init__(
        self, indent_increment: int = 2, width: int | None = None, max_width: int | None = None
    ) -> None:
        fitting = max(min(columns(), max_width or 80) - 2, 50)  # as click reckons
        super().__init__(indent_increment, width or fitting, max_width)


class _Context(click.Context):
    formatter_class = _Formatter


_MANY = 60
"""Options of a command whose help explains the first of each heading alone; `--help-all` explains all."""
_FIRST = 5
"""How many it explains."""
_ALL = "chakrakit.help_all"


def explain_all(context: click.Context) -> None:
    """Has the help of a context explain every option."""
    context.meta[_ALL] = True


def _print_all(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        explain_all(context)
        click.echo(context.get_help(), color=context.color)
        context.exit()


class GroupedCommand(click.Command):
    """A command whose help shows examples, its arguments, and its options under their headings."""

    context_class = _Context

    def __init__(self, name: str, parameters: Sequence[Parameter], help: str, **given: Any) -> None:
        self.options = {p.name: p.option for p in parameters}
        shown, self.examples = _without_examples(inspect.cleandoc(help))
        made = [_parameter(p) for p in parameters]
        if len(made) > _MANY:
            text = "Explain every option and exit."
            settings = {"is_flag": True, "is_eager": True, "expose_value": False}
            made.append(click.Option(["--help-all"], callback=_print_all, help=text, **settings))
        super().__init__(name, params=made, help=shown, **given)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Reads the command line; where something is missing, says what it is and gives an example."""
        try:
            self._refuse_repeated(ctx, args)
            return super().parse_args(ctx, args)
        except click.MissingParameter as error:
            missing = self.options.get(str(error.param.name)) if error.param else None
            text = self._with_example(missing.help if missing else "")
            raise click.MissingParameter(text, ctx, error.param) from None
        except click.NoSuchOption as error:
            target = self.options.get("target")
            if target is None or error.option_name not in ("-o", "--output"):
                raise
            text = f"{error.message} {target.metavar} is given without it."
            raise click.UsageError(self._with_example(text), ctx) from None

    def _refuse_repeated(self, ctx: click.Context, args: list[str]) -> None:
        """Refuses a second value of an option that has one; click would forget the first without a word."""
        if sum(word.startswith("-") for word in args) < 2:
            return
        order = self.make_parser(ctx).parse_args(list(args))[2]
        for parameter, times in Counter(order).items():
            if times > 1 and isinstance(parameter, click.Option) and not parameter.multiple:
                if parameter.is_flag or parameter.name not in self.options:
                    continue
                option = self.options[parameter.name]
                cure = "give its values together, with commas" if option.joined else "give it once"
                text = f"{parameter.opts[-1]} is given {times} times; {cure}. {option.help}"
                raise click.UsageError(text, ctx)

    def _with_example(self, text: str) -> str:
        example = self.examples[0].partition("  #")[0].rstrip() if self.examples else ""
        return f"{text} For example: {example}".strip() if example else text

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes what the command does, then the examples."""
        super().format_help_text(ctx, formatter)
        if self.examples:
            with formatter.section("Examples"):
                formatter.write("".join(f"  {line}\n" for line in self.examples))

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes one section for the arguments, one for the plain options, and one for each heading."""
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        for parameter in self.get_params(ctx):
            option = self.options.get(str(parameter.name))
            if isinstance(option, Positional):
                sections["Arguments"].append((parameter.make_metavar(ctx), option.help))
            elif record := parameter.get_help_record(ctx):
                sections.setdefault(_heading(option), []).append(record)
        sections[OUTPUT] = sections.pop(OUTPUT, [])  # last
        short = len(self.params) > _MANY and not ctx.meta.get(_ALL)
        for heading, rows in sections.items():
            if rows:
                with formatter.section(heading):
                    _write_rows(formatter, rows, _FIRST if short else len(rows))


def _write_rows(
    formatter: click.HelpFormatter, rows: Sequence[tuple[str, str]], explained: int
) -> None:
    """Explains the first options, and names the others where they are more than a few."""
    if len(rows) <= explained + 2:
        return formatter.write_dl(rows)
    formatter.write_dl(rows[:explained])
    names = ", ".join(row[0].split(" ")[0].rstrip(",") for row in rows[explained:])
    text, indent = f"and {names}; --help-all explains them", " " * formatter.current_indent
    import textwrap

    whole = {"break_on_hyphens": False, "initial_indent": indent, "subsequent_indent": indent}
    return formatter.write(textwrap.fill(text, formatter.width, **whole) + "\n")  # type: ignore[arg-type]


def _without_examples(text: str) -> tuple[str, list[str]]:
    """A docstring, and apart from it the block of command lines that ends it."""
    shown, mark, lines = text.rpartition("\n\b\n")
    if mark and lines.lstrip().startswith("chakra "):
        return shown.rstrip(), lines.rstrip().splitlines()
    return text, []


def _heading(option: Option | None) -> str:
    if option is not None and not option.group and option.flags.startswith("-o "):
        return OUTPUT
    return (option.group if option else "") or "Options"


def _parameter(parameter: Parameter) -> click.Parameter:
    return _argument(parameter) if isinstance(parameter.option, Positional) else _option(parameter)


def _argument(parameter: Parameter) -> click.Argument:
    several = parameter.kind is parameter.kind.VAR_POSITIONAL or parameter.option.words == -1
    needed = parameter.is_required
    return click.Argument(
        [parameter.name],
        type=_type(parameter),
        metavar=parameter.option.metavar,
        nargs=-1 if several else 1,
        required=needed,
        **({} if needed or several else {"default": parameter.default}),
    )


def _option(parameter: Parameter) -> click.Option:
    option, default = parameter.option, parameter.default
    shows_default = default is not None and default is not False and default not in ((), "")
    text = f"{option.help} May be repeated." if parameter.is_repeated else option.help
    attributes: dict[str, Any] = {"help": text, "show_default": shows_default}
    if parameter.is_required:
        attributes |= {"required": True, "show_default": False}
    elif not isinstance(default, tuple):
        attributes |= {"default": default}
    spelled = [*parameter.spellings, parameter.name]
    if parameter.is_switch:
        return click.Option(spelled, is_flag="/" not in spelled[-2] or None, **attributes)
    return click.Option(
        spelled,
        type=_type(parameter),
        metavar=option.metavar,
        multiple=parameter.is_repeated,
        nargs=option.words,
        **attributes,
    )


def _type(parameter: Parameter) -> Any:
    """Choices, or a number where the type is one; else text."""
    if parameter.choices:
        return click.Choice([str(choice) for choice in parameter.choices])
    least, most = parameter.option.least, parameter.option.most
    if parameter.alternatives == (int,):
        return click.INT if least is None else click.IntRange(least, most)
    return click.FLOAT if parameter.alternatives == (float,) else click.STRING
