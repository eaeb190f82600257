"""Why a capture cannot go on, in words for the person whose script it is."""

from __future__ import annotations

from chakrakit.errors import ConfigError


class CaptureError(ConfigError):
    """A script that cannot be captured as it stands."""


class NeedsValue(CaptureError):  # noqa: N818 - reads as what it is
    """The script asks for a value that fake tensors do not have."""


class Finished(BaseException):
    """Every step asked for is recorded: unwinds the script, past its own `except Exception`."""
