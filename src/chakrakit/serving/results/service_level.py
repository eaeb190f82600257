"""Service levels: the most a request may take, in milliseconds."""

from __future__ import annotations

import msgspec

from chakrakit.errors import ConfigError


class ServiceLevel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Milliseconds to the first token, for each token after it, and in all; None for no limit."""

    ttft: float | None = None
    tpot: float | None = None
    e2e: float | None = None

    @classmethod
    def parse(cls, text: str | None) -> ServiceLevel:
        """From `ttft=500,tpot=50`."""
        if not text:
            return cls()
        fields = {}
        for part in text.split(","):
            name, equals, value = part.partition("=")
            if not equals:
                raise ConfigError(f"--slo {text!r}: {part!r} should be ttft=MS, tpot=MS or e2e=MS")
            fields[name.strip()] = value.strip()
        try:
            return msgspec.convert(fields, cls, strict=False)
        except msgspec.ValidationError as error:
            raise ConfigError(f"--slo {text!r}: {error}") from None
