"""Models by name, however hyphenated, or from a configuration file."""

import json

import pytest

from chakrakit.errors import ConfigError
from chakrakit.workloads.models import model_named

LLAMA = {
    "model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4,
    "intermediate_size": 128, "vocab_size": 100,
}  # fmt: skip


@pytest.mark.parametrize("name", ["llama3.1-8b", "llama-3.1-8b", "Llama-3.1-8B"])
def test_hyphens_and_case_do_not_matter(name):
    assert model_named(name).name == "llama3.1-8b"


def test_a_dot_does():
    with pytest.raises(ConfigError, match=r"no model 'llama31-8b'; did you mean 'llama3\.1-8b'"):
        model_named("llama31-8b")


def test_a_directory_with_a_config_is_a_model(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    found = model_named(str(tmp_path))
    assert (found.name, found.layers, found.kv_heads) == (tmp_path.name, 2, 4)


def test_what_is_no_text_is_refused():
    with pytest.raises(ConfigError, match="a model is named by a text, not by 3"):
        model_named(3)


def test_unknown_models_are_refused_with_a_hint(tmp_path) -> None:
    with pytest.raises(ConfigError, match=r"did you mean 'llama3.1-8b'"):
        model_named("llama3.1-8bb")
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    with pytest.raises(ConfigError, match="without 'num_hidden_layers'"):
        model_named(str(tmp_path))
