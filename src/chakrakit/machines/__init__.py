"""What a cluster is: devices, links, topologies, presets, and how long an operation takes on them."""
