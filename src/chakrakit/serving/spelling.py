"""`name{field=value}` of an option other than --pass, with errors that name the option."""

from __future__ import annotations

from typing import Any

from chakrakit.errors import ConfigError
from chakrakit.passes.spelling import split


def spelled(text: str, option: str) -> tuple[str, dict[str, Any]]:
    """The name and the fields; values are text still, which the fields' types decide."""
    try:
        return split(text)
    except ConfigError as error:
        raise ConfigError(str(error).replace("--pass", option)) from None
