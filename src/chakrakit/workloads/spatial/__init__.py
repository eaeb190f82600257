"""Networks on grids: convolutions and local attention by layer, cut over ranks by domain, channel, layer."""

from __future__ import annotations

from chakrakit.workloads.spatial.cutting import SPLITS, SpatialPlan, generate_spatial
from chakrakit.workloads.spatial.halo import halo_bytes
from chakrakit.workloads.spatial.networks import NETWORKS, network_named
from chakrakit.workloads.spatial.windows import Network, Window

__all__ = [
    "NETWORKS",
    "SPLITS",
    "Network",
    "SpatialPlan",
    "Window",
    "generate_spatial",
    "halo_bytes",
    "network_named",
]
