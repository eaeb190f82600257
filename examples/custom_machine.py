"""A machine of your own in twenty lines: two racks of different devices on an oversubscribed tree."""

from data_parallel import training_step

from chakrakit.machines import draw, parse_machine
from chakrakit.simulator.results import simulate

MACHINE = {
    "name": "two-racks",
    "device": {"name": "fast", "peak": {"bf16": "400 TFLOP/s"}, "memory": "80 GB"},
    "network": [
        {"topology": "full", "size": 4, "bandwidth": "100 GB/s", "latency": "500 ns"},
        {
            "topology": "fat-tree",
            "arity": [4, 2],
            "bandwidth": "100 Gb/s",
            "latency": "1 us",
            "oversubscription": 4,
            "joins": "gateways",
        },
    ],
    "changes": [{"ranks": "16-31", "device": {"name": "slow", "peak": {"bf16": "200 TFLOP/s"}}}],
}

if __name__ == "__main__":
    machine = parse_machine(MACHINE, "two-racks")
    print(draw(machine))
    done = simulate(training_step(machine.size, layers=4), machine)
    print(
        f"step {done.makespan_ns / 1e6:.3f} ms; {done.summary.collectives[0].algorithm} all-reduce"
    )
