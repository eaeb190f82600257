"""Trace × machine → Run."""
