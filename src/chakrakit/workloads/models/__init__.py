"""Named models, and Hugging Face `config.json` files."""

from __future__ import annotations

from chakrakit.workloads.models.naming import named

__all__ = ["named"]
