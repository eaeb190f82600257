"""Studies of what devices, memory and storage do, and of work split between them."""
