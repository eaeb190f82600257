"""A cluster that a file describes is served from the command line as it is in Python."""

from __future__ import annotations

from pathlib import Path

import pytest

import chakrakit as ck
from chakrakit.errors import ConfigError
from chakrakit.machines import load_machine
from chakrakit.serving import EngineSpec, RankFailure, Service, fleet
from chakrakit.serving.steps import ModelledSteps
from support.commands import data

TWO = """
engines:
  - {model: llama-3.1-8b, machine: dgx-h100, count: 2}
  - model: qwen3-14b
    machine: dgx-a100
    tp: 2
    options: vllm{max_num_seqs=64}
router: least
faults: [[1.0, 0, 2.0]]
"""
STREAM = "poisson{rate=8,n=40,prompt=200,output=8,models=llama-3.1-8b:qwen3-14b}"


def written(folder: Path, text: str) -> str:
    path = folder / "cluster.yaml"
    path.write_text(text)
    return str(path)


@pytest.mark.slow
def test_unlike_engines_of_a_file_serve_as_in_python(tmp_path: Path) -> None:
    answer = data("serve", "--cluster", written(tmp_path, TWO), "--requests", STREAM)
    engines = [
        EngineSpec(model="llama-3.1-8b", machine="dgx-h100", count=2),
        EngineSpec(model="qwen3-14b", machine="dgx-a100", tp=2, options="vllm{max_num_seqs=64}"),
    ]
    own = ck.serve(engines=engines, requests=STREAM, router="least", faults=[(1.0, 0, 2.0)])
    assert answer["finished"] == 40
    assert answer["e2e_ms"]["p99"] == pytest.approx(own.e2e_ms.p99)
    assert not answer.get("intervals")


def test_a_service_of_a_file_takes_the_time_of_its_kinds(tmp_path: Path) -> None:
    """A request of three items of no kind: 1 ms, and 3 ms for each."""
    requests = tmp_path / "requests.jsonl"
    requests.write_text('{"at": 0, "prompt": 3, "out": 1, "model": "x"}\n')
    text = (
        "service: {seconds: 0.001, per_item: 0.003, kinds: {1: {seconds: 0.004, per_item: 0.001}}}"
    )
    run = tmp_path / "run"
    done = ck.serve(cluster=written(tmp_path, text), requests=str(requests), output=run)
    assert done.e2e_ms.mean == pytest.approx(10.0)
    seen = ck.analyze(run).serving  # the Run is one of an engine that serves
    assert seen is not None
    assert seen.e2e_ms.mean == pytest.approx(10.0)
    assert seen.engines[0].requests == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("engines: []", "give one of the two"),
        ("rooter: least", "no field 'rooter'; did you mean 'router'"),
        (TWO.replace("tp: 2", "tpp: 2"), r"yaml:6: no field 'tpp'; did you mean"),
        ("router: leest", "router: Invalid enum value 'leest'; did you mean 'least'"),
        (TWO.replace("count: 2", "count: 0"), "yaml:3: an EngineSpec with a count of 0"),
        ("service: {seconds: 1, kinds: {x: {}}}", r"give kinds by number, as in \{1: \{seconds"),
        ("service: {seconds: 1, max_items: 0}", "yaml:1: service service: max_items"),
        (TWO.replace("count: 2", f"count: {10**30}"), "yaml:3: an EngineSpec with a count of 1000"),
        ("service: {seconds: 1, max_requests: 9000000000}", "give at most 10,000"),
        ("service: {seconds: 1, memory: .inf, item_bytes: 1}", "inf bytes of memory"),
        (TWO + "link_schedule: [[0, 1], [1.0e-300, 1]]", "is not a picosecond later"),
        (TWO + "codecs: [{name: fp8, ratio: 0}]", "codec fp8: give a ratio and rates above 0"),
        (TWO + "policy: mine.py:Mine", "no field 'policy'"),
        (
            TWO + "rank_faults: [{at_s: 1, rank: 0, tier: 3}]",
            "no field 'tier'; did you mean 'tier_gbps'",
        ),
        (TWO + "rank_faults: [{at_s: -1, rank: 0, tier_gbps: 3}]", "yaml:10: rank 0 fails at -1 s"),
        (TWO + "rank_faults: [{at_s: 1, rank: 0, tier_gbps: 3}]", "give --ep"),
        (TWO + "rank_faults: [{at_s: 1, rank: 7, tier_gbps: 3}]", "no engine or rank 7; .* 0 to 2"),
    ],
)
def test_what_is_wrong_in_a_file_is_named_with_its_line(
    tmp_path: Path, text: str, said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        ck.serve(cluster=written(tmp_path, text), requests=STREAM)


def test_what_a_file_says_is_not_asked_for_twice(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="says router, faults; do not ask for them as well"):
        ck.serve(
            cluster=written(tmp_path, TWO), requests=STREAM, router="prefix", faults=[(1.0, 1, 1.0)]
        )


def test_a_diffusion_model_is_served_by_the_time_of_its_steps(tmp_path: Path) -> None:
    """Two requests of three denoising steps, far apart: each takes three steps of one sample."""
    text = "service: {model: dit-xl-2, machine: dgx-h100, compute: roofline, max_items: 4}"
    requests = "poisson{rate=0.001,n=2,prompt=1,output=3}"
    done = ck.serve(cluster=written(tmp_path, text), requests=requests)
    service = Service.of_model("dit-xl-2", "dgx-h100", compute="roofline", max_items=4)
    one, three, four = (service.step_seconds(n, {}) for n in (1, 3, 4))
    assert done.e2e_ms.mean == pytest.approx(3e3 * one)
    assert one < three < four < 4 * one
    with pytest.raises(ConfigError, match="is a model over tokens"):
        Service.of_model("llama-3.1-8b", "dgx-h100")
    with pytest.raises(ConfigError, match="a service has `seconds`, or a `model` and a `machine`"):
        ck.serve(cluster=written(tmp_path, "service: {model: dit-xl-2}"), requests=requests)


EXPERTS = """
engines:
  - {model: llama-3.1-8b, machine: dgx-h100}
  - {model: deepseek-v3-16b, machine: dgx-h100, dp: 4, ep: 4}
rank_faults: [{at_s: 0.5, rank: 2, tier_gbps: 3, detect_s: 0.5, away_s: 2}]
"""


@pytest.mark.slow
def test_a_rank_of_a_cluster_in_a_file_fails_as_it_does_alone(tmp_path: Path) -> None:
    """Rank 2 of the cluster is rank 1 of its second engine."""
    stream = "poisson{rate=20,n=60,prompt=256,output=16}"
    experts = f"{stream[:-1]},models=deepseek-v3-16b}}"
    text = EXPERTS.replace("  - {model: llama-3.1-8b, machine: dgx-h100}\n", "")
    one = data(
        "serve",
        *("--cluster", written(tmp_path, text.replace("rank: 2", "rank: 1"))),
        *("--requests", experts),
    )
    failure = RankFailure(at_s=0.5, rank=1, tier_gbps=3.0, detect_s=0.5, away_s=2.0)
    own = ck.serve(
        "deepseek-v3-16b", "dgx-h100", stream, dp=4, ep=4, rank_faults=[failure], seed=None
    )
    assert one["e2e_ms"]["p99"] == pytest.approx(own.e2e_ms.p99)
    models = f"{stream[:-1]},models=deepseek-v3-16b:llama-3.1-8b}}"
    both = ck.serve(cluster=written(tmp_path, EXPERTS), requests=models)
    healthy = ck.serve(
        cluster=written(tmp_path, EXPERTS.partition("rank_faults")[0]), requests=models
    )
    assert both.finished == healthy.finished == 60
    assert both.e2e_ms.p99 > healthy.e2e_ms.p99 + 400


def test_engines_that_are_listed_one_by_one_cost_what_one_entry_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of thousands of lines reads its machine once and has each step's times computed once."""
    loaded, timed = [], []
    monkeypatch.setattr(
        fleet, "load_machine", lambda name: loaded.append(name) or load_machine(name)
    )
    cost = ModelledSteps.cost
    monkeypatch.setattr(
        ModelledSteps, "cost", lambda steps, **how: timed.append(steps) or cost(steps, **how)
    )
    entry = "{{model: llama-3.1-8b, machine: dgx-h100, kv_blocks: {}, compute: {}}}"
    entries = [entry.format(500 + i % 5, ("roofline", "auto")[i % 2]) for i in range(40)]
    stream = "closed{n=40,prompt=100,output=3}"
    listed = ck.serve(
        cluster=written(tmp_path, "engines:\n  - " + "\n  - ".join(entries)), requests=stream
    )
    assert loaded == ["dgx-h100"]
    assert len(timed) == 2, "one for each way of timing"
    assert [pool.engines for pool in listed.pools] == [1] * 40
    alone = ck.serve(
        requests=stream,
        engines=[
            EngineSpec(model="llama-3.1-8b", machine="dgx-h100", kv_blocks=500, compute=c, count=20)
            for c in ("roofline", "auto")
        ],
    )
    assert listed.energy_joules == pytest.approx(alone.energy_joules, rel=0.01)


def test_what_has_no_effect_is_said(tmp_path: Path) -> None:
    """Nothing moves between these engines, and they have no store."""
    text = TWO + "codecs: [{name: a, ratio: 2}]\nstore_schedule: [[0, 0.5]]\n"
    done = ck.serve(cluster=written(tmp_path, text), requests=STREAM)
    assert any("codecs, store_schedule: without effect" in note for note in done.notes)


def test_models_that_no_engine_serves_are_refused(tmp_path: Path) -> None:
    text = "engines: [{model: llama-3.1-8b, machine: dgx-h100}]"
    with pytest.raises(ConfigError, match="requests ask for qwen3-14b, which no engine serves"):
        ck.serve(cluster=written(tmp_path, text), requests=STREAM)


LOOP = """
from chakrakit.serving import Request
from chakrakit.serving.requests import stream_of


class Turns:
    stream = stream_of([0.0], [100], [4])

    def next(self, now_s, finished):
        return [Request(prompt=100, output=4) for one in finished if one.number < 3]
"""


def test_a_source_from_a_file_closes_the_loop(tmp_path: Path) -> None:
    """Four requests, each made of the one before."""
    (tmp_path / "loop.py").write_text(LOOP)
    text = "engines: [{model: llama-3.1-8b, machine: dgx-h100}]"
    words = ("serve", "--cluster", written(tmp_path, text), "--requests")
    assert data(*words, f"{tmp_path}/loop.py:Turns")["finished"] == 4
    with pytest.raises(ConfigError, match=r"--requests .* has no class Loops"):
        ck.serve(cluster=written(tmp_path, text), requests=f"{tmp_path}/loop.py:Loops")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"engine": "sglang"}, "--engine: not with a cluster"),
        ({"engine": "vllm{max_num_seqs=2}"}, "--engine: not with a cluster"),
        ({"router": "turn"}, "says router"),
    ],
)
def test_options_that_a_file_answers_for_itself_are_refused(
    tmp_path: Path, options: dict[str, str], message: str
) -> None:
    """Also one that asks for what is usual: the file may say otherwise."""
    file = tmp_path / "cluster.yaml"
    file.write_text("engines: [{model: llama-3.1-8b, machine: dgx-h100}]\nrouter: least\n")
    with pytest.raises(ConfigError, match=message):
        ck.serve(requests="poisson{rate=4,n=5}", cluster=file, **options)
