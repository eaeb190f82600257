"""Commands over many runs, and the demo."""
