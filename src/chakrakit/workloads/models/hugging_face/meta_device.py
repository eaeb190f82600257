"""Models as transformers builds them on the meta device, where tensors have shapes and no values.

Nothing is downloaded, and programs that a repository brings are never run: a class that a file names is
looked for in transformers alone.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from chakrakit.errors import ConfigError, MissingExtra
from chakrakit.workloads.models.hugging_face.keys import Keys

MOST_LAYERS = 1024
"""More than any published model has; a file that says more is not built."""
CURE = "describe the model in YAML, or capture a program of yours that runs it"


def known_to_transformers(*parts: Keys) -> bool:
    """Whether transformers is here and has a place for every key that our own reader left unread."""
    if (
        importlib.util.find_spec("transformers") is None
        or importlib.util.find_spec("torch") is None
    ):
        return False
    unread = {key for part in parts for key in part.unread()}
    if unread and not unread <= _names_in_configurations(unread):
        return False
    transformers = importlib.import_module("transformers")
    kind = parts[0].word("model_type")
    if kind not in transformers.CONFIG_MAPPING:
        return False
    whole = transformers.CONFIG_MAPPING[kind]()
    defaults = (whole.to_dict(), whole.get_text_config().to_dict())
    return all(
        key in default
        for part, default in zip(parts, defaults, strict=False)
        for key in part.unread()
    )


def _names_in_configurations(keys: set[str]) -> set[str]:
    """Those keys that any configuration of transformers names.

    Its files are searched as text: importing it brings PyTorch, which takes seconds and hundreds of
    megabytes, and a key that is misspelled needs neither.
    """
    spec = importlib.util.find_spec("transformers")
    assert spec is not None
    assert spec.origin is not None
    folder = Path(spec.origin).parent
    sources = (folder / "configuration_utils.py", *folder.glob("models/*/configuration_*.py"))
    text = "\n".join(source.read_text() for source in sources if source.is_file())
    return {key for key in keys if _names(text, key)}


def type_of_class(stated: str, called: str) -> str:
    """The `model_type` of a class of transformers, where it has the class and not the type stated."""
    if not called.isidentifier() or importlib.util.find_spec("transformers") is None:
        return ""
    transformers = importlib.import_module("transformers")
    if stated in transformers.CONFIG_MAPPING:
        return ""
    model = getattr(transformers, called, None)
    return str(getattr(getattr(model, "config_class", None), "model_type", ""))


def libraries(kind: str) -> tuple[Any, Any]:
    """PyTorch and transformers, or what to install for a type of model that is not built in."""
    try:
        return importlib.import_module("torch"), importlib.import_module("transformers")
    except ImportError:
        raise MissingExtra(f"model_type {kind!r}, which is not built in,", "models") from None


def unrunnable(transformers: Any, path: Path, error: Exception) -> ConfigError:
    """What the model's own code raised, as an error of ours."""
    if isinstance(error, ConfigError):
        return error
    return ConfigError(
        f"{path}: transformers {transformers.__version__} cannot run this model without values: "
        f"{type(error).__name__}: {error!s:.200}; {CURE}"
    )


@contextmanager
def quiet(transformers: Any) -> Iterator[None]:
    """Warnings of a library about a model that only lends its shapes are not for the user."""
    logging = transformers.utils.logging
    level = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(level)


def configuration(transformers: Any, keys: Keys, path: Path) -> Any:
    """The configuration of a file as its own class has it."""
    content = {
        k: v for k, v in keys.content.items() if k not in ("quantization_config", "auto_map")
    }
    kind = str(content.pop("model_type", ""))
    if kind not in transformers.CONFIG_MAPPING:
        own = (
            " Its repository brings a program of its own, which is never run."
            if "auto_map" in keys.content
            else ""
        )
        raise ConfigError(
            f"{path}: model_type {kind!r} is neither built in nor known to transformers "
            f"{transformers.__version__}.{own} Describe the model in YAML, or use a newer transformers"
        )
    content = _text_inside(transformers.CONFIG_MAPPING[kind], content)
    try:
        config = transformers.AutoConfig.for_model(kind, **content)
    except Exception as error:  # configuration classes check what they like
        raise ConfigError(f"{path}: not a configuration of {kind}: {error!s:.200}") from None
    _check_depth(config, path)
    _refuse_unknown(keys, config, kind)
    return config


def _text_inside(kind: Any, content: dict[str, Any]) -> dict[str, Any]:
    """A file with its text's sizes beside its other parts, as a class with a part for text takes it."""
    text = (getattr(kind, "sub_configs", None) or {}).get("text_config")
    if "text_config" in content or not isinstance(text, type):
        return content
    whole, inside = _source(kind, alone=True), _source(text, alone=True)
    moved = {n: v for n, v in content.items() if _names(inside, n) and not _names(whole, n)}
    if "hidden_size" not in moved:
        return content
    return {n: v for n, v in content.items() if n not in moved} | {"text_config": moved}


def _refuse_unknown(keys: Keys, config: Any, kind: str) -> None:
    """Names keys that transformers would pass over and that state something nothing else states.

    What a class reads is named in its own source or in that of the model; what repeats a number that the
    configuration has anyway says nothing.
    """
    inside = keys.part("text_config")
    parts = [(keys, config)] if inside is None else [(keys, config), (inside, _text(config))]
    source = _source(type(config)) + _source(type(_text(config)))
    everything = [p.content for p, _ in parts] + [d.to_dict() for _, d in parts]
    stated = _numbers([[v for n, v in e.items() if _names(source, n)] for e in everything])
    for part, _ in parts:
        said = (n for n, v in part.content.items() if _names(source, n) or _numbers(v) <= stated)
        part.skip(*said)
        part.refuse_unread(kind)


def _numbers(value: Any) -> set[int]:
    """Every whole number above 1 in what a key says."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return {n for entry in value for n in _numbers(entry)}
    whole = isinstance(value, int) and not isinstance(value, bool) and value > 1
    return {value} if whole else set()


def _source(kind: type, *, alone: bool = False) -> str:
    """The text of a configuration's class, and of the module that builds models from it."""
    if alone:
        return inspect.getsource(kind)
    module = kind.__module__
    names = (module, module.replace(".configuration_", ".modeling_"))
    specs = [importlib.util.find_spec(name) for name in names]
    return "".join(Path(s.origin).read_text() for s in specs if s is not None and s.origin)


def _names(source: str, key: str) -> bool:
    return re.search(rf"\b{re.escape(key)}\b", source) is not None


def _check_depth(config: Any, path: Path) -> None:
    """Every number of layers, as a model of millions of them would be built for ever."""
    try:
        text = config.get_text_config()
    except ValueError:  # several texts inside
        text = config
    for part in {id(p): p for p in (config, text)}.values():
        for name in ("num_hidden_layers", "encoder_layers", "decoder_layers", "num_layers"):
            layers = getattr(part, name, None)
            if layers is None:
                continue
            if not isinstance(layers, int) or not 0 <= layers <= MOST_LAYERS:
                raise ConfigError(f"{path}: {name} is {layers!r}; it should be 1 to {MOST_LAYERS}")


def built(torch: Any, transformers: Any, config: Any, named: str = "", dtype: Any = None) -> Any:
    """The language model on the meta device, as it serves: nothing is dropped at random.

    `named` is the class that a file names, which is built where transformers has it.
    """
    ways: list[tuple[Any, Any]] = [
        (transformers.AutoModelForCausalLM, config),
        (transformers.AutoModelForCausalLM, _text(config)),
        (transformers.AutoModelForImageTextToText, config),
        (transformers.AutoModelForSeq2SeqLM, config),
        (transformers.AutoModelForMaskedLM, config),
    ]
    if takes_text_alone(config) and (own := _class_named(transformers, named, config)):
        ways.insert(0, (own, config))
    return _first_of(torch, ways, dtype)


def whole(torch: Any, transformers: Any, config: Any, named: str = "") -> Any:
    """The model with everything that turns other inputs into tokens."""
    names = ("AutoModelForImageTextToText", "AutoModelForMultimodalLM", "AutoModelForCausalLM")
    autos = [getattr(transformers, name) for name in names if hasattr(transformers, name)]
    own = _class_named(transformers, named, config)
    return _first_of(torch, [(maker, config) for maker in (own, *autos) if maker is not None])


def _class_named(transformers: Any, name: str, config: Any) -> Any:
    """A class of transformers for this kind of configuration; None where it has none of that name."""
    found: Any = getattr(transformers, name, None) if name.isidentifier() else None
    is_model = isinstance(found, type) and issubclass(found, transformers.PreTrainedModel)
    return found if is_model and getattr(found, "config_class", None) is type(config) else None


def _text(config: Any) -> Any:
    try:
        return config.get_text_config()
    except ValueError:  # several texts inside
        return config


def _first_of(torch: Any, ways: list[tuple[Any, Any]], dtype: Any = None) -> Any:
    refused: Exception | None = None
    with torch.device("meta"):
        for maker, described in ways:
            make = getattr(maker, "from_config", None) or maker._from_config
            try:
                return make(described, dtype=dtype or torch.bfloat16).eval()
            except ValueError as error:
                refused = refused or error
    raise ConfigError(f"transformers has no language model for it: {refused!s:.120}; {CURE}")


def takes_text_alone(config: Any) -> bool:
    """Whether a model has no part for anything but text."""
    return _text(config) is config
