"""What a pass is on the command line, in YAML and in Python is one thing, and mistakes are named."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chakrakit.errors import ConfigError
from chakrakit.passes.base import Pass, parse, read_passes, registry, split
from chakrakit.passes.base.base import spelled
from chakrakit.passes.base.registry import make
from chakrakit.passes.compact import Compact
from chakrakit.trace.sets import TraceSet


@dataclass(frozen=True)
class Odd(Pass):
    """One field of every kind."""

    name: ClassVar[str] = "odd"
    preserves: ClassVar[str] = "everything"
    count: int = 0
    factor: float = 1.0
    text: str = ""
    texts: tuple[str, ...] = ()
    by_class: dict[str, float] = field(default_factory=dict)
    flag: bool = False
    maybe: int | None = None

    def apply(self, traces: TraceSet) -> TraceSet:
        return traces


@pytest.fixture(autouse=True)
def _odd_is_a_pass(monkeypatch):
    pass_class = registry.pass_class
    monkeypatch.setitem(registry.PASSES, "odd", "odd:Odd")
    monkeypatch.setattr(
        "chakrakit.passes.base.registry.pass_class",
        lambda name: Odd if name == "odd" else pass_class(name),
    )


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        ("compact", Compact()),
        ("compact{}", Compact()),
        (" compact { keep-annotations = false } ", Compact(keep_annotations=False)),
        ("odd{count=3, factor=1e-3}", Odd(count=3, factor=1e-3)),
        ("odd{text=aten::mm}", Odd(text="aten::mm")),
        ("odd{text=.*gemm.*, count=1}", Odd(text=".*gemm.*", count=1)),
        ('odd{text="a, b=c}"}', Odd(text="a, b=c}")),
        ("odd{texts=[1, two, 'a, b']}", Odd(texts=("1", "two", "a, b"))),
        ("odd{by_class={gemm: 0.5, rest: 2}}", Odd(by_class={"gemm": 0.5, "rest": 2.0})),
        ("odd{flag=true, maybe=4}", Odd(flag=True, maybe=4)),
        ("odd{text=it's}", Odd(text="it's")),
        ("odd{texts=5}", Odd(texts=("5",))),
    ],
)
def test_a_spec_is_a_pass(spec, wanted):
    assert parse(spec) == wanted


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ("compat", "no pass 'compat'; did you mean 'compact' or 'comm'?"),
        ("compact{keep_anotations=1}", "did you mean 'keep_annotations'?"),
        ("odd{count=many}", "count"),
        ("odd{count}", "'count' should be field=value"),
        ("odd{texts=[a, b}", "is missing"),
        ("odd{texts=[a, ]x]}", "cannot read"),
        ("odd{count=1", "should look like"),
        ("", "should look like"),
        ("odd{by_class=5}", "Expected `object`"),
    ],
)
def test_a_wrong_spec_says_what_and_where(spec, problem):
    with pytest.raises(ConfigError) as error:
        parse(spec)
    assert problem in str(error.value)
    assert repr(spec) in str(error.value)


@pytest.mark.slow
@given(
    st.builds(
        Odd,
        count=st.integers(-(2**62), 2**62),
        factor=st.floats(allow_nan=False, allow_infinity=False),
        text=st.text(),
        texts=st.lists(st.text(), max_size=3).map(tuple),
        by_class=st.dictionaries(st.text(), st.floats(0, 1), max_size=3),
        flag=st.booleans(),
        maybe=st.none() | st.integers(0, 9),
    )
)
def test_what_is_spelled_is_read_back(one):
    name, fields = split(str(one))
    assert make(name, fields, "here") == one


def test_only_what_differs_from_the_defaults_is_spelled():
    assert str(Compact()) == "compact"
    assert str(Odd(texts=("a b", "c"))) == 'odd{texts=["a b", c]}'
    assert spelled("x", {"a": None, "b": True}) == "x{a=null, b=true}"


def test_a_yaml_list_has_specs_and_mappings(tmp_path):
    file = tmp_path / "p.yaml"
    file.write_text("- compact\n- odd{count=2}\n- odd: {texts: [1, '*a'], factor: 2}\n- odd:\n")
    assert read_passes(file) == [Compact(), Odd(count=2), Odd(texts=("1", "*a"), factor=2.0), Odd()]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("compact: {}", "should be a list of passes"),
        ("- compact\n- odd: {count: x}", "pass 2"),
        ("- [a]", "pass 1 should be"),
        ("- odd: 3", "as a mapping"),
        ("- {", "not YAML"),
    ],
)
def test_a_wrong_file_says_which_pass(tmp_path, text, problem):
    file = tmp_path / "p.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=problem):
        read_passes(file)


def test_a_list_of_more_passes_than_anybody_writes(tmp_path):
    path = tmp_path / "passes.yaml"
    path.write_text("- compact\n" * 257)
    with pytest.raises(ConfigError, match=r"passes\.yaml: has 257 passes; 256 is the most"):
        read_passes(path)
