"""The same work faster, slower, on another device or in another precision."""
