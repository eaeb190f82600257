"""What if: Llama-3.2-1B on 8 GPUs, at other sizes, on other devices, and with parts of it changed.

Run as it stands: `python examples/what_if.py`
"""

from chakrakit.passes import Edit, Recost, ScaleRanks
from chakrakit.simulator.results import simulate
from chakrakit.workloads.description import Plan, Step, Workload
from chakrakit.workloads.generate import generate
from chakrakit.workloads.models import model_named


def main() -> None:
    """The step of eight ranks, scaled; then questions asked of 64."""
    plan, step = Plan(dp=8, data="fsdp"), Step(seq=2048, global_batch=8)
    eight = generate(Workload(model=model_named("llama3.2-1b"), plan=plan, step=step)) | Recost(
        "dgx-h100"
    )
    for ranks in (8, 64, 512):
        scaled = eight | ScaleRanks(ranks)
        ms = simulate(scaled, f"dgx-h100:{ranks // 8}").makespan_ns / 1e6
        print(f"{ranks:5} ranks {ms:8.3f} ms, {scaled.body_count} body")
    many = eight | ScaleRanks(64)
    fp8 = {"gemm": "fp8"}
    questions = {
        "as it is": (many, "dgx-h100:8"),
        "on A100s": (many | Recost("dgx-a100", measured_on="dgx-h100"), "dgx-a100:8"),
        "products in fp8": (
            many | Recost("dgx-h100", measured_on="dgx-h100", dtypes=fp8),
            "dgx-h100:8",
        ),
        "messages in bf16": (many | Recost(dtypes={"communication": "bf16"}), "dgx-h100:8"),
        "attention for nothing": (many | Edit(scale=0, classes=("attention",)), "dgx-h100:8"),
        "every layer 100 us longer": (
            many | Edit(add_us=100, names=(r".*mlp\.down$",)),
            "dgx-h100:8",
        ),
    }
    for question, (traces, machine) in questions.items():
        ms = simulate(traces, machine).makespan_ns / 1e6
        print(f"{question:26}{ms:8.3f} ms  {' | '.join(traces.card.passes[1:])}")


if __name__ == "__main__":
    main()
