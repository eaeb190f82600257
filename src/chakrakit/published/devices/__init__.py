"""Studies of what single devices do, and of work split between them."""
