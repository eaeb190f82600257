"""HTML and SVG as text, everything escaped: names in a trace are not to be trusted."""

from __future__ import annotations

from html import escape

VOID = frozenset({"meta", "br", "line", "rect", "circle", "path", "polyline"})


class Markup(str):
    """Text that is markup already."""

    __slots__ = ()


def tag(name: str, /, *children: object, **attributes: object) -> Markup:
    """An element; `class_` and `stroke_width` become class and stroke-width. Texts are escaped."""
    told = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_text(value), quote=True)}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in VOID and not children:
        return Markup(f"<{name}{told}/>")
    return Markup(f"<{name}{told}>{join(*children)}</{name}>")


def join(*children: object) -> Markup:
    """One after another; what is not markup is escaped."""
    return Markup("".join(c if isinstance(c, Markup) else escape(_text(c)) for c in children))


def _text(value: object) -> str:
    """Numbers short; control characters, which no XML may hold, shown as pictures of themselves."""
    if isinstance(value, float):
        return f"{value:.2f}".rstrip("0").rstrip(".")
    return "".join(
        chr(0x2400 + ord(c)) if ord(c) < 32 and c not in "\n\t" else c for c in str(value)
    )
