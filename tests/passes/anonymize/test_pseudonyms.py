"""Pseudonyms: stable under a key, digits alone, nothing of the old text left."""

import pyarrow as pa

from chakrakit.passes.anonymize import Pseudonyms, renamed

NAMES = Pseudonyms(b"key")


def test_the_same_text_gives_the_same_digits_under_the_same_key():
    assert NAMES.of("aten::mm") == Pseudonyms(b"key").of("aten::mm")
    assert NAMES.of("aten::mm") != Pseudonyms(b"other").of("aten::mm")
    assert len(NAMES.of("x")) == 20
    assert NAMES.of("x").isdigit()


def test_nothing_stays_nothing():
    assert NAMES.of("") == ""


def test_a_path_is_renamed_part_by_part():
    outer, inner = NAMES.path("model.layers").split(".")
    assert (outer, inner) == (NAMES.of("model"), NAMES.of("layers"))


def test_groups_get_numbers_that_nobody_has():
    found = NAMES.groups(["", "1", "tp", "dp"])
    assert (found[""], found["1"]) == ("", "1")
    assert len({*found.values()}) == 4
    assert 0 < int(found["tp"]) < 10**9


def test_a_number_that_is_taken_goes_to_the_next():
    wanted = NAMES.groups(["tp"])["tp"]
    found = NAMES.groups(["tp", wanted])
    assert (found[wanted], found["tp"]) == (wanted, str(int(wanted) + 1))


def test_the_old_texts_are_nowhere_in_a_renamed_column():
    column = pa.chunked_array([pa.array(["secret", None, "secret"]).dictionary_encode()])
    found = renamed(column, lambda text: text[::-1])
    assert found.to_pylist() == ["terces", None, "terces"]
    assert found.dictionary.to_pylist() == ["terces"]
    assert renamed(pa.chunked_array([], pa.string()), str).to_pylist() == []
