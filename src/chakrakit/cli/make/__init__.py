"""Commands that make traces."""
