"""Share a trace and keep its names: anonymize, see what is left, and that it still behaves the same."""

from pathlib import Path

import chakrakit
from chakrakit.passes import Anonymize
from chakrakit.simulator.results import simulate
from chakrakit.workloads.description import Plan, Step, Workload
from chakrakit.workloads.generate import generate
from chakrakit.workloads.models import model_named

model, plan = model_named("llama3.2-1b"), Plan(dp=4, tp=2, data="fsdp")
secret = generate(Workload(model=model, plan=plan, step=Step(seq=1024, global_batch=8)))

policy = Anonymize(key="keep this to yourself")
public = secret | policy
chakrakit.write(public, "public")

report = policy.explain(secret, public)
for column in report["columns"]:
    print(f"{column['column']:20} {column['treatment']:8} {column['values left']:6,} values left")
print("words left:", ", ".join(report["words"]))

names = {n for i in range(secret.body_count) for n in secret.body_at(i).names.to_pylist()}
written = b"".join(f.read_bytes() for f in Path("public").rglob("*") if f.is_file())
print("names left:", sum(n.encode() in written for n in names), "of", len(names))

for machine in ("dgx-h100:8", "dgx-a100:8", "ethernet-100g:8"):
    times = [
        simulate(t, machine, compute="roofline").makespan_ns
        for t in (secret, chakrakit.read("public"))
    ]
    print(f"{machine:16} {times[0] / 1e6:.3f} ms before, {times[1] / 1e6:.3f} ms after")
