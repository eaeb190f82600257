"""Simulates traces on a machine; the result is a Run."""
