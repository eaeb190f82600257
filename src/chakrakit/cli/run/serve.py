"""`chakra serve`: requests in, tokens out, on a machine that need not exist."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from chakrakit.cli.shared import console, json_option, print_json, print_table

if TYPE_CHECKING:
    from chakrakit.serving import ServeResult


@click.command(name="serve")
@click.option("--model", required=True, metavar="M", help="A model's name, or a config.json.")
@click.option("--machine", required=True, metavar="X", help="A preset such as dgx-h100, or a file.")
@click.option(
    "--requests",
    required=True,
    metavar="FILE|PROCESS",
    help="A file, or 'poisson{rate=4,prompt=512,output=128}'; also gamma, bursts, clients, closed.",
)
@click.option(
    "--engine",
    default="vllm",
    show_default=True,
    metavar="NAME{OPTION=VALUE}",
    help="vllm, sglang, trtllm or transformers, with options as that engine names them.",
)
@click.option("--tp", type=int, default=1, help="Tensor-parallel ranks of an engine.")
@click.option("--pp", type=int, default=1, help="Pipeline stages of an engine.")
@click.option("--dp", type=int, default=1, help="Data-parallel attention ranks of an engine.")
@click.option(
    "--ep", type=int, default=1, help="Expert-parallel ranks of an engine, among those of --dp."
)
@click.option("--replicas", type=int, default=1, help="Engines behind the router.")
@click.option(
    "--prefill", type=int, default=0, help="Engines that only process prompts; needs --decode."
)
@click.option(
    "--decode", type=int, default=0, help="Engines that only generate outputs; needs --prefill."
)
@click.option(
    "--prefill-tp", type=int, default=0, help="Tensor-parallel ranks of an engine for prompts."
)
@click.option(
    "--decode-tp", type=int, default=0, help="Tensor-parallel ranks of an engine for outputs."
)
@click.option(
    "--router",
    type=click.Choice(["turn", "least", "prefix"]),
    default="turn",
    help="Engines in turn, the least loaded, or the one that has the longest prefix in its cache.",
)
@click.option(
    "--layers", metavar="FILE", help="Measured layer times, a folder or one of its tables."
)
@click.option("--kv-blocks", type=int, help="Blocks of the cache, instead of what memory leaves.")
@click.option(
    "--compute", default="auto", help="auto (the device's own profile), roofline, or a profile."
)
@click.option(
    "--dtype", default="bf16", show_default=True, help="Element type: bf16, fp16 or fp32."
)
@click.option(
    "--quantization",
    default="",
    help="fp8: weights and matmuls of one byte; fp4: weights of four bits.",
)
@click.option(
    "--slo", metavar="ttft=MS,tpot=MS", help="Service level; goodput counts the requests within it."
)
@click.option("--seed", type=int, help="Seed of a process; wins over the one it names.")
@click.option("--first", type=int, metavar="N", help="Only the first N requests.")
@click.option(
    "--rate-scale", type=float, default=1.0, help="Let requests arrive this many times as fast."
)
@click.option(
    "--prompt-scale", type=float, default=1.0, help="Make prompts this many times as long."
)
@click.option(
    "--output-scale", type=float, default=1.0, help="Make outputs this many times as long."
)
@click.option("--spread", type=float, default=0.0, help="Move arrivals later by up to S seconds.")
@click.option(
    "--policy",
    metavar="FILE.py:CLASS",
    help="A class with scheduling decisions of your own; see docs/serving.md.",
)
@click.option(
    "--expand", metavar="FROM:TO|step:N", help="Write these seconds, or this step, as operators."
)
@click.option("-o", "--output", metavar="RUN", help="Write a Run with requests.parquet.")
@json_option
def command(as_json: bool, **settings: Any) -> None:
    """Serve a stream of requests with a model under a plan on a machine."""
    from chakrakit.serving import serve

    result = serve(**settings)
    if as_json:
        return print_json(result)
    return _show(result)


def _show(result: ServeResult) -> None:
    names = {
        "time to first token": result.ttft_ms,
        "time per output token": result.tpot_ms,
        "between tokens": result.itl_ms,
        "end to end": result.e2e_ms,
        "in the queue": result.queue_ms,
    }
    rows = [
        (name, *(f"{value:,.1f}" for value in (s.mean, s.p50, s.p90, s.p99)))
        for name, s in names.items()
    ]
    print_table(("ms", "mean", "p50", "p90", "p99"), rows)
    lines = [
        f"{result.finished:,} of {result.requests:,} requests in {result.duration_s:,.1f} s: "
        f"{result.output_tokens_per_s:,.0f} output tokens/s, goodput {result.goodput:,.2f} requests/s",
        f"{result.steps:,} steps of {result.mean_batch:,.1f} requests; {result.preemptions:,} preemptions; "
        f"{result.cache_hit_rate:.1%} of prompt tokens cached",
        f"cache: {result.kv.arithmetic}; {result.kv.peak_tokens:,} tokens held at the most",
        f"{result.energy_joules:,.0f} J, {result.joules_per_token:,.2f} J per token; {result.step_times}",
        *(f"note: {note}" for note in result.notes),
    ]
    for line in lines:
        console().print(line, markup=False)
