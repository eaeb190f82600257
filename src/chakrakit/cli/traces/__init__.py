"""Commands on traces as files."""
