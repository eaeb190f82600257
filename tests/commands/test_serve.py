"""`chakra serve` for people, and its policy by file and class."""

from __future__ import annotations

from pathlib import Path

from support.commands import chakra, data, succeeded

SERVE = ("serve", "--model", "llama-3.1-8b", "--machine", "dgx-h100", "--requests")
STREAM = "poisson{rate=9,n=5,prompt=64,output=4}"


def test_latencies_throughput_and_the_cache_are_told() -> None:
    told = succeeded(*SERVE, STREAM)
    first, head = told.splitlines()[:2]
    assert first.startswith("5 of 5 requests in")
    assert head.split() == ["ms", "mean", "p50", "p90", "p95", "p99"]
    assert "cache: 85.0 GB of memory" in told


def test_a_policy_is_a_class_in_a_file(tmp_path: Path) -> None:
    policy = tmp_path / "own.py"
    policy.write_text("class Own:\n    def route(self, request, engines):\n        return 0\n")
    found = data(*SERVE, STREAM, "--policy", f"{policy}:Own")
    assert found["finished"] == 5
    done = chakra(*SERVE, STREAM, "--policy", f"{policy}:Absent")
    assert done.exit_code == 2
    assert "Absent" in done.stderr


def test_a_device_without_a_price_is_said_to_have_none() -> None:
    told = succeeded(*SERVE[:4], "tpu-v5e", "--tp", "4", "--requests", STREAM)
    assert "price: not known" in told
    assert "price: not known" not in succeeded(*SERVE, STREAM)
