"""What serving comes to: latencies, batches, caches and energy of small streams under many settings."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

import chakrakit as ck
from chakrakit.serving.requests import read_requests, requests_from
from fuzz.formats.serving import SERVING
from support.commands import chakra, data
from support.damaged import compare_outcomes, damages, printed
from support.kept_results import checksums, compare, of_set

STREAM = "poisson{rate=4,n=60,prompt=600,output=40}"
SETTINGS = {
    "plain": ("llama3.1-8b", "dgx-h100"),
    "h200": ("llama3.1-8b", "dgx-h200", "--tp", 2),
    "sglang": ("llama3.1-8b", "dgx-h100", "--engine", "sglang"),
    "experts": ("mixtral-8x7b", "dgx-h100", "--tp", 4),
    "latent": ("deepseek-v3-16b", "dgx-h200", "--tp", 2),
    "replicas": ("llama3.1-8b", "dgx-h100", "--replicas", 2, "--router", "least"),
    "apart": ("llama3.1-8b", "dgx-h100", "--prefill", 1, "--decode", 1),
    "small cache": ("llama3.1-8b", "dgx-h100", "--kv-blocks", 400),
    "fp8": ("llama3.1-8b", "dgx-h100", "--quantization", "fp8"),
    "pipeline": ("llama3.1-70b", "dgx-h100", "--tp", 4, "--pp", 2),
    "other device": ("llama3.1-8b", "dgx-a100"),
    "clocked": ("llama3.1-8b", "dgx-h100", "--clock", 1200),
    "ranks together": ("mixtral-8x7b", "dgx-h100", "--tp", 2, "--dp", 2, "--ep", 2),
    "roofline": ("llama3.1-8b", "dgx-h100", "--compute", "roofline"),
    "profile": ("llama3.1-8b", "dgx-h100", "--compute", "h100", "--clock", 1500),
    "power cap": ("llama3.1-8b", "dgx-h200", "--power-cap", 350),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_kept_figures_of_served_streams(name: str) -> None:
    model, machine, *options = SETTINGS[name]
    words = ("serve", "--model", model, "--machine", machine, "--requests", STREAM, *options)
    compare(f"served-{name.replace(' ', '-')}", data(*words))


STREAMS = {
    "turns": "poisson{rate=9,n=50,turns=3,think=1,prefix=128,prefixes=3,prompt=lognormal:300:1,output=30}",
    "bursts": "bursts{rate=6,size=7,n=50,prompt=lognormal:900:1,output=lognormal:60:1}",
    "priorities": "poisson{rate=30,n=60,priorities=3,prompt=lognormal:300:1,output=lognormal:20:0.5}",
    "closed": "closed{concurrency=6,think=0.2,n=40,prompt=uniform:50:4000,output=uniform:1:80}",
    "crowd": "gamma{rate=80,cv=3,n=90,prompt=2500,output=200}",
}
MORE = {
    "one": (),
    "small cache": ("--kv-blocks", 900),
    "levels": ("--slo", "ttft=300,tpot=25,e2e=4000", "--first", 40),
    "prefix router": ("--replicas", 3, "--router", "prefix"),
    "turn router": ("--replicas", 2, "--router", "turn", "--spread", 0.2),
    "apart": ("--prefill", 2, "--decode", 1, "--decode-tp", 2),
    "trtllm": ("--engine", "trtllm", "--tp", 2),
    "scaled": ("--rate-scale", 1.7, "--prompt-scale", 0.6, "--output-scale", 2, "--seed", 3),
    "eight bits": ("--quantization", "fp8", "--clock", 1300),
}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow if n != "turns" else ()) for n in STREAMS]
)
def test_kept_figures_of_many_streams(name: str, tmp_path: Path) -> None:
    """Streams of unlike requests under settings that make them wait; with the Run that is written."""
    figures = {}
    for setting, options in MORE.items():
        words = (
            "serve",
            "--model",
            "llama3.1-8b",
            "--machine",
            "dgx-h100",
            "--requests",
            STREAMS[name],
        )
        run = tmp_path / setting
        done = chakra(*words, *options, "-o", run, "--json")
        if done.exit_code != 0:
            figures[setting] = done.stderr
            continue
        written = ck.read(run)
        counters = {n: table.to_pydict() for n, table in written.counters.items()}
        result = {k: v for k, v in json.loads(done.stdout).items() if k != "output"}
        figures[setting] = [result, of_set(written), counters]
    compare(f"streamed-{name}", checksums(figures))


PROCESSES = [
    "poisson{rate=3,turns=3,think=2,prefix=64,prefixes=3}",
    "poisson{rate=3,priorities=3,prompt=lognormal:300:1,output=lognormal:20:0.5}",
    "gamma{rate=3,cv=2.5}",
    "bursts{rate=2,size=4}",
    "clients{clients=5,rate=3}",
    "diurnal{rate=3,swing=0.8,period=40}",
    "regimes{rates=1:6:0,every=5}",
    "rates{file=FILE}",
    "closed{concurrency=3,think=1}",
]


def test_kept_requests_of_processes(tmp_path: Path) -> None:
    """Forty requests of each: when they come, how long they are, what they share."""
    file = tmp_path / "rates.csv"
    file.write_text("0,2\n10,8\n15,0\n20,1\n")
    figures = {}
    for text in PROCESSES:
        spelled = text[:-1] + ",n=40,seed=5}"
        stream = requests_from(spelled.replace("FILE", str(file)))
        figures[text] = _plain(dataclasses.asdict(stream))
    compare("requests-of-processes", figures)


@damages(30, 100)
@pytest.mark.parametrize("name", [f.name for f in SERVING if f.name.startswith("requests-")])
def test_kept_outcomes_of_damaged_requests(name: str, numbers: range, tmp_path: Path) -> None:
    """What each tool's file of requests is read as, and what is said to those that were damaged."""
    compare_outcomes(name, tmp_path, _requests, numbers)


def _requests(folder: Path) -> object:
    file = folder / "requests" if (folder / "requests").exists() else folder / "chunk-1-trace.csv"
    return _plain(dataclasses.asdict(read_requests(file)))


def _plain(value: object) -> object:
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    return value.tolist() if isinstance(value, np.ndarray) else value


@damages(8, 80)
@pytest.mark.parametrize("file", ["cluster", "service"])
def test_kept_outcomes_of_damaged_clusters(file: str, numbers: range, tmp_path: Path) -> None:
    """How clusters in a file serve two requests, and what is said to damaged files."""
    command = f"serve --cluster {{in}}/{file}.yaml --requests closed{{n=2,prompt=100,output=3}}"
    compare_outcomes("cluster", tmp_path, printed(command), numbers, kept_as=file)
