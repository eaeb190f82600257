"""Calls of operators: names looked up, arguments laid out, the short way found."""

from __future__ import annotations

from .bindings import Bindings
from .calls import Do, Layout, bind, constant
from .lookup import data_type, find_operator

__all__ = ["Bindings", "Do", "Layout", "bind", "constant", "data_type", "find_operator"]
