"""What a search found, as settings that the frameworks' own parsers take and engines' versions know."""

from __future__ import annotations

import json
import tomllib

import pytest
import yaml

from chakrakit.exploration.search import SERVING, TRAINING, VERSIONS, ServingPlan
from chakrakit.exploration.search.configurations.training import megatron_arguments
from chakrakit.workloads.description import Plan, Step, Workload
from chakrakit.workloads.models import model_named
from support.commands import data
from support.paths import DATA

PLAN = Plan(dp=4, tp=2, pp=2, data="fsdp", recompute="full")
WORKLOAD = Workload(
    model=model_named("llama-3.1-8b"),
    plan=PLAN,
    step=Step(seq=4096, global_batch=64, micro_batch=2),
)


def test_torchtitan_parses_its_toml(tmp_path):
    config = pytest.importorskip("torchtitan.config", reason="pip install torchtitan==0.2.2 triton")
    if not hasattr(config, "JobConfig"):
        pytest.skip("torchtitan from 0.3 on takes no TOML")
    (tmp_path / "t.toml").write_text(TRAINING["torchtitan"](WORKLOAD).text)
    parsed = config.ConfigManager().parse_args(["--job.config_file", str(tmp_path / "t.toml")])
    degrees = parsed.parallelism
    assert (degrees.tensor_parallel_degree, degrees.pipeline_parallel_degree) == (2, 2)
    assert (degrees.data_parallel_shard_degree, degrees.data_parallel_replicate_degree) == (4, 1)
    assert (parsed.activation_checkpoint.mode, parsed.training.global_batch_size) == ("full", 64)
    assert parsed.training.local_batch_size * PLAN.dp == 64


def test_accelerate_parses_its_yaml(tmp_path):
    arguments = pytest.importorskip(
        "accelerate.commands.config.config_args", reason="pip install accelerate==1.15.0"
    )
    (tmp_path / "a.yaml").write_text(TRAINING["accelerate"](WORKLOAD).text)
    parsed = arguments.load_config_from_file(str(tmp_path / "a.yaml"))
    assert parsed.num_processes == 16
    assert parsed.fsdp_config["fsdp_version"] == 2
    assert parsed.parallelism_config["parallelism_config_tp_size"] == 2


def test_deepspeed_parses_its_json(tmp_path, monkeypatch):
    config = pytest.importorskip("deepspeed.runtime.config", reason="pip install deepspeed==0.19.8")

    class DataParallel:
        """What DeepSpeed asks a model-parallel unit for."""

        def get_data_parallel_world_size(self):
            return PLAN.dp

    monkeypatch.setattr(config.dist, "get_rank", lambda: 0)
    (tmp_path / "d.json").write_text(TRAINING["deepspeed"](WORKLOAD).text)
    parsed = config.DeepSpeedConfig(str(tmp_path / "d.json"), mpu=DataParallel())
    assert (parsed.zero_config.stage, parsed.train_batch_size) == (3, 64)
    assert parsed.gradient_accumulation_steps == 8


def test_megatron_core_takes_its_settings():
    core = pytest.importorskip("megatron.core", reason="pip install megatron-core==0.16.1")
    torch = pytest.importorskip("torch")
    fields = core.ModelParallelConfig.__dataclass_fields__
    arguments = {k: v for k, v in megatron_arguments(WORKLOAD).items() if k in fields}
    config = core.ModelParallelConfig(**arguments, pipeline_dtype=torch.bfloat16)
    assert (config.tensor_model_parallel_size, config.sequence_parallel) == (2, True)
    others = set(megatron_arguments(WORKLOAD)) - set(fields)
    assert others == {
        "micro_batch_size", "global_batch_size", "seq_length", "use_distributed_optimizer",
        "recompute_granularity", "recompute_method", "recompute_num_layers",
    }  # fmt: skip


@pytest.mark.parametrize("name", TRAINING)
def test_every_file_is_well_formed_without_its_framework(name):
    made = TRAINING[name](WORKLOAD)
    parse = {"toml": tomllib.loads, "json": json.loads, "yaml": yaml.safe_load}
    content = parse.get(made.file.rsplit(".", 1)[1], str.split)(made.text)
    assert content


@pytest.mark.parametrize(
    ("data", "stage"), [("none", 0), ("ddp", 0), ("zero1", 1), ("zero2", 2), ("fsdp", 3)]
)
def test_deepspeed_s_stage_counts_what_is_sharded(data, stage):
    """Optimizer states from 1 on, gradients from 2 on, and parameters at 3."""
    made = TRAINING["deepspeed"](WORKLOAD.replace(plan=PLAN.replace(data=data)))
    zero = json.loads(made.text)["zero_optimization"]
    assert zero == {"stage": stage, "overlap_comm": stage > 0}


def test_what_a_framework_cannot_say_is_said():
    assert "pp 2: set it in the script" in TRAINING["deepspeed"](WORKLOAD).missing
    assert TRAINING["megatron"](WORKLOAD).missing == (
        "fsdp: the distributed optimizer shards its own state alone",
    )


def serving_plan(**changes):
    fields = dict.fromkeys(ServingPlan.__struct_fields__, 0) | {
        "devices": 8, "tp": 2, "pp": 1, "ep": 1, "replicas": 4, "batch_tokens": 2048,
        "batch_requests": 128, "meets": True, "why": "",
    }  # fmt: skip
    return ServingPlan(**fields | changes)


def option_names(engine):
    """The options of an engine's named version, with their source in the first line."""
    lines = (DATA / "engine_options" / f"{engine}.txt").read_text().splitlines()
    assert VERSIONS[engine] in lines[0]
    return set(lines[1:])


PLANS = {
    "together": serving_plan(),
    "experts": serving_plan(ep=4, replicas=1),
    "apart": serving_plan(replicas=1, prefill=2, decode=2, prefill_tp=1, decode_tp=3),
}


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("engine", ["vllm", "sglang", "tensorrt-llm"])
def test_engines_know_every_option(engine, plan):
    for made in SERVING[engine](PLANS[plan], "meta-llama/Llama-3.1-8B"):
        assert set(yaml.safe_load(made.text)) <= option_names(engine)


@pytest.mark.parametrize("plan", PLANS)
def test_a_deployment_s_workers_have_known_options_and_the_devices_of_the_plan(plan):
    (made,) = SERVING["dynamo"](PLANS[plan], "m")
    services = yaml.safe_load(made.text)["spec"]["services"]
    workers = [s for s in services.values() if s["componentType"] == "worker"]
    flags = [
        a[2:] for w in workers for a in w["extraPodSpec"]["mainContainer"]["args"] if a[:2] == "--"
    ]
    assert set(flags) <= option_names("vllm") | option_names("dynamo")
    assert sum(w["replicas"] * int(w["resources"]["limits"]["gpu"]) for w in workers) == 8


def keys_of(values, place=""):
    """The keys of nested mappings and lists of them, as paths."""
    for key, value in values.items():
        inner = value[0] if isinstance(value, list) else value
        if isinstance(inner, dict):
            yield from keys_of(inner, f"{place}{key}.")
        else:
            yield place + key


@pytest.mark.parametrize("engine", VERSIONS)
def test_options_come_from_a_named_version_of_the_engine_with_its_address(engine):
    first, *names = (DATA / "engine_options" / f"{engine}.txt").read_text().splitlines()
    assert first.startswith(f"# {VERSIONS[engine]}: ")
    assert ".org/" in first or ".com/" in first or ".io/" in first
    assert len(names) > 30
    assert names == sorted(set(names))


def test_dynamo_s_workers_are_told_their_stage():
    (made,) = SERVING["dynamo"](PLANS["apart"], "m")
    services = yaml.safe_load(made.text)["spec"]["services"]
    stages = {
        s["subComponentType"]: s["extraPodSpec"]["mainContainer"]["args"][-2:]
        for s in services.values()
        if "subComponentType" in s
    }
    assert stages == {s: ["--disaggregation-mode", s] for s in ("prefill", "decode")}


def test_llm_d_has_a_pool_for_each_stage():
    (made,) = SERVING["llm-d"](PLANS["apart"], "m")
    values = yaml.safe_load(made.text)
    assert set(keys_of(values)) <= option_names("llm-d")
    assert (values["prefill"]["replicas"], values["decode"]["parallelism"]["tensor"]) == (2, 3)


@pytest.mark.slow
def test_the_commands_write_them(tmp_path):
    small = ("--model", "gpt3-125m", "--gpus", 8, "--machine", "dgx-h100")
    axes = ("--seq", 512, "--tp", "1,2", "--pp", 1, "--data", "ddp")
    found = data("search", *small, *axes, "--configurations", tmp_path / "train")
    assert sorted(f.name for f in (tmp_path / "train").iterdir()) == [
        "accelerate.yaml", "deepspeed.json", "megatron.args", "nemo.yaml", "torchtitan.toml",
    ]  # fmt: skip
    assert len(found["configurations"]) == 5
    titan = tomllib.loads((tmp_path / "train" / "torchtitan.toml").read_text())
    assert titan["parallelism"]["tensor_parallel_degree"] == found["best"]["tp"]
