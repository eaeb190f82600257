"""A machine on which jobs meet."""

import pytest

from chakrakit.machines import parse_machine


@pytest.fixture(scope="module")
def narrow():
    """Four nodes of four devices whose nodes share one thin way up."""
    text = {
        "name": "narrow",
        "device": {"peak": {"bf16": "1 TFLOP/s"}, "memory_bandwidth": "1 TB/s", "memory": "80 GB"},
        "network": [
            {"topology": "switch", "size": 4, "bandwidth": "100 GB/s", "latency": "1 us"},
            {
                "topology": "switch",
                "size": 4,
                "bandwidth": "10 GB/s",
                "latency": "2 us",
                "joins": "gateways",
            },
        ],
    }
    return parse_machine(text, "narrow")
