"""How much an installation holds, and that it stays within what is promised."""

from __future__ import annotations

import pytest

from support.scripts import script


@pytest.mark.parametrize("extra", ["", "all"])
def test_an_installation_is_as_small_as_promised(
    extra: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if extra:
        pytest.importorskip("mcp")
    assert script("installed_size").main(extra) == 0
    assert "chakrakit" in capsys.readouterr().out


def test_what_an_extra_adds_is_counted_with_it_alone() -> None:
    required = script("installed_size").required
    plain = required("chakrakit")
    assert {"numpy", "pyarrow", "msgspec", "pyyaml", "click", "joblib", "cloudpickle"} < set(plain)
    assert "duckdb" not in plain
    pytest.importorskip("duckdb")
    assert set(required("chakrakit", "sql")) == {*plain, "duckdb"}
