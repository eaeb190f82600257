"""`chakra view`: a local web app for runs of any size; the server sends only what a screen can show."""

from __future__ import annotations

from chakrakit.views.app.launch import open_session, serve, serve_page

__all__ = ["open_session", "serve", "serve_page"]
