"""The two ranks of the insight tests, shown."""

from __future__ import annotations

from support.two_ranks import two_ranks  # noqa: F401 - a fixture
