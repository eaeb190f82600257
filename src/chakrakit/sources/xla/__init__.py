"""Programs that XLA compiled: HLO modules as traces, and JAX functions compiled to them."""
