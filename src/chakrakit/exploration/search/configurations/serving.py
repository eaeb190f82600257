"""Ways to serve as the settings of engines: vLLM, SGLang, TensorRT-LLM, Dynamo and llm-d.

Names of options are those of the versions in `VERSIONS`, whose options the tests list with their source. What
an engine has no setting for is said beside what was written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import yaml

from chakrakit.exploration.search.configurations.training import Configuration
from chakrakit.exploration.search.serving_search import ServingPlan

VERSIONS = {
    "vllm": "vLLM 0.32.0",
    "sglang": "SGLang 0.5.23",
    "tensorrt-llm": "TensorRT-LLM at fcd3f316",
    "dynamo": "Dynamo 1.6.1",
    "llm-d": "llm-d-modelservice v0.4.0",
}
"""Whose options are written: a release, or a commit where a release's own files are not at hand."""


def _engine_sizes(plan: ServingPlan) -> list[tuple[str, int, int]]:
    """(role, engines, tensor parallelism): of one pool, or of prefill and decode."""
    if plan.prefill:
        return [("prefill", plan.prefill, plan.prefill_tp), ("decode", plan.decode, plan.decode_tp)]
    return [("", plan.replicas, plan.tp)]


def vllm_options(plan: ServingPlan, tp: int) -> dict[str, Any]:
    """VLLM's engine arguments of one engine."""
    options: dict[str, Any] = {
        "tensor-parallel-size": tp,
        "pipeline-parallel-size": plan.pp,
        "max-num-batched-tokens": plan.batch_tokens,
        "max-num-seqs": plan.batch_requests,
    }
    if plan.ep > 1:
        options |= {"data-parallel-size": plan.ep, "enable-expert-parallel": True}
    return {name: value for name, value in options.items() if value}


def vllm(plan: ServingPlan, model: str) -> list[Configuration]:
    """A YAML for `vllm serve --config`, one for each pool."""
    out = []
    for role, engines, tp in _engine_sizes(plan):
        content = {"model": model, **vllm_options(plan, tp)}
        missing = [f"start {engines} of these engines behind a router"] if engines > 1 else []
        if role:
            transfer = {"kv_connector": "NixlConnector", "kv_role": "kv_both"}
            content["kv-transfer-config"] = transfer
        out.append(Configuration(_name("vllm", role), _yaml(content), tuple(missing)))
    return out


def sglang(plan: ServingPlan, model: str) -> list[Configuration]:
    """A YAML for `sglang.launch_server --config`, one for each pool."""
    out = []
    for role, engines, tp in _engine_sizes(plan):
        content: dict[str, Any] = {
            "model-path": model,
            "tp-size": tp,
            "pp-size": plan.pp,
            "chunked-prefill-size": plan.batch_tokens,
            "max-running-requests": plan.batch_requests,
        }
        if plan.ep > 1:
            content |= {"ep-size": plan.ep, "dp-size": plan.ep, "enable-dp-attention": True}
        if role:
            content["disaggregation-mode"] = role
        missing = [f"start {engines} of these engines behind a router"] if engines > 1 else []
        kept = {k: v for k, v in content.items() if v}
        out.append(Configuration(_name("sglang", role), _yaml(kept), tuple(missing)))
    return out


def tensorrt_llm(plan: ServingPlan, model: str) -> list[Configuration]:
    """A YAML for `trtllm-serve --extra_llm_api_options`, one for each pool."""
    out = []
    for role, engines, tp in _engine_sizes(plan):
        content: dict[str, Any] = {
            "tensor_parallel_size": tp,
            "pipeline_parallel_size": plan.pp,
            "max_batch_size": plan.batch_requests,
            "max_num_tokens": plan.batch_tokens,
            "enable_chunked_prefill": True,
        }
        if plan.ep > 1:
            content |= {"moe_expert_parallel_size": plan.ep, "enable_attention_dp": True}
        if role:
            content["cache_transceiver_config"] = {"backend": "DEFAULT"}
        missing = [f"start {engines} of these engines behind a router"] if engines > 1 else []
        kept = {k: v for k, v in content.items() if v}
        out.append(Configuration(_name("tensorrt-llm", role), _yaml(kept), tuple(missing)))
    return out


def dynamo(plan: ServingPlan, model: str) -> list[Configuration]:
    """A DynamoGraphDeployment: a frontend and the pools of vLLM's workers."""
    services: dict[str, Any] = {"Frontend": {"componentType": "frontend", "replicas": 1}}
    for role, engines, tp in _engine_sizes(plan):
        flags = vllm_options(plan, tp)
        arguments = [
            w for k, v in flags.items() for w in ((f"--{k}",) if v is True else (f"--{k}", str(v)))
        ]
        if role:
            arguments += ["--disaggregation-mode", role]
        name = f"Vllm{role.capitalize() or 'Decode'}Worker"
        services[name] = {
            "componentType": "worker",
            **({"subComponentType": role} if role else {}),
            "replicas": engines,
            "resources": {"limits": {"gpu": str(tp * plan.pp * max(plan.ep, 1))}},
            "extraPodSpec": {
                "mainContainer": {
                    "command": ["python3", "-m", "dynamo.vllm"],
                    "args": ["--model", model, *arguments],
                }
            },
        }
    content = {
        "apiVersion": "nvidia.com/v1alpha1",
        "kind": "DynamoGraphDeployment",
        "metadata": {"name": "serving"},
        "spec": {"backendFramework": "vllm", "services": services},
    }
    return [Configuration("dynamo.yaml", _yaml(content))]


def llm_d(plan: ServingPlan, model: str) -> list[Configuration]:
    """Values of llm-d's chart for model services."""
    content: dict[str, Any] = {"modelArtifacts": {"name": model, "uri": f"hf://{model}"}}
    for role, engines, tp in _engine_sizes(plan):
        flags = vllm_options(plan, tp)
        degrees = {"tensor": tp, "data": max(plan.ep, 1)}
        own = {k: v for k, v in flags.items() if not k.startswith(("tensor", "data"))}
        arguments = [f"--{k}" if v is True else f"--{k}={v}" for k, v in own.items()]
        container = {"modelCommand": "vllmServe", "args": arguments}
        content[role or "decode"] = {
            "create": True,
            "replicas": engines,
            "parallelism": degrees,
            "containers": [{"name": "vllm", **container}],
        }
    if not plan.prefill:
        content["prefill"] = {"create": False}
    return [Configuration("llm-d.yaml", _yaml(content))]


def _name(engine: str, role: str) -> str:
    return f"{engine}-{role}.yaml" if role else f"{engine}.yaml"


def _yaml(content: dict[str, Any]) -> str:
    text: str = yaml.safe_dump(content, sort_keys=False)
    return text


SERVING: dict[str, Callable[[ServingPlan, str], list[Configuration]]] = {
    "vllm": vllm,
    "sglang": sglang,
    "tensorrt-llm": tensorrt_llm,
    "dynamo": dynamo,
    "llm-d": llm_d,
}
"""Engines by name."""
