"""`models`: what `generate` knows by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, overload

from chakrakit.commands.command import command as command_of
from chakrakit.commands.options import Positional, public
from chakrakit.commands.output import Json, print_json, print_table

if TYPE_CHECKING:
    from chakrakit.workloads.description import Model
    from chakrakit.workloads.generate import ModelList


@overload
def models(name: None = None) -> ModelList: ...
@overload
def models(name: str) -> Model: ...
@public()
def models(
    name: Annotated[
        str | None,
        Positional(
            "A model's name, or the path of a Hugging Face `config.json`.", metavar="[NAME]"
        ),
    ] = None,
) -> ModelList | Model:
    """List the models that `generate` knows by name, or give one as a description.

    Returns
    -------
    A list of models with their parameters; with `name`, the model, whose fields a YAML file can change.

    Examples
    --------
    >>> "llama3.1-8b" in [m.name for m in ck.models().models]
    True
    >>> ck.models("llama3.1-8b").layers
    32

    """
    from chakrakit.workloads.generate import model_list
    from chakrakit.workloads.models import model_named

    return model_list() if name is None else model_named(name)


@command_of(models)
def command(name: str | None, *, json: Json = False) -> None:
    """List the built-in models, or show one as the description that a YAML file can change.

    \b
    chakra models
    chakra models llama-3.1-8b
    """
    if name:
        return print_json(models(name))
    catalog = models()
    if json:
        return print_json(catalog)
    rows = ((m.name, m.family, m.parameters, m.active_parameters) for m in catalog.models)
    return print_table(("model", "family", "parameters", "used by a token"), rows)
