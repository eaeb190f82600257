"""Strings that columns refer to by number."""

import numpy as np

from chakrakit.sources.pytorch.read import TextPool
from chakrakit.sources.pytorch.read.texts import plain_strings

WORDS = (b"", b"aten::mm", b"aten::add_", "größe".encode())


def laid_out(words):
    """The words end to end, and where each begins."""
    ends = np.cumsum([0, *map(len, words)]).astype(np.int64)
    return np.frombuffer(b"".join(words), np.uint8), ends


def test_a_string_has_a_number_and_a_number_its_string():
    texts = TextPool(*laid_out(WORDS))
    assert len(texts) == 4
    assert [texts[i] for i in range(4)] == ["", "aten::mm", "aten::add_", "größe"]
    assert (texts.number("aten::add_"), texts.number("aten::sub")) == (2, -1)


def test_questions_are_answered_for_every_distinct_string():
    texts = TextPool(*laid_out(WORDS))
    assert texts.matching(r"_$").tolist() == [False, False, True, False]
    assert texts.where(str.isalpha).tolist() == [False, False, False, True]


def test_a_column_is_null_where_it_is_not_valid():
    texts = TextPool(*laid_out(WORDS))
    column = texts.column(np.array([1, 3, 1], np.int32), np.array([True, True, False]))
    assert column.to_pylist() == ["aten::mm", "größe", None]


def test_bytes_that_are_not_utf_8_are_replaced():
    data = laid_out((b"ab", b"c\xff", b""))
    assert TextPool(*data).strings == ["ab", "c�", ""]
    assert plain_strings(*data).to_pylist() == ["ab", "c�", ""]


def test_rows_of_plain_strings_share_the_bytes_they_were_given():
    data, ends = laid_out((b"[1]", b"", b"[2]"))
    rows = plain_strings(data, ends)
    assert rows.to_pylist() == ["[1]", "", "[2]"]
    assert rows.buffers()[2].address == data.ctypes.data
