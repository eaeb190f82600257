"""What became of an item."""

from chakrakit.errors import ConfigError
from chakrakit.parallel import ItemOutcome
from chakrakit.parallel.outcome import attempt, text_of


def test_a_value_is_a_value():
    assert attempt(lambda x: x + 1, 2) == ItemOutcome(0, 3)


def test_an_items_own_error_is_an_answer_like_any_other():
    def fail(_item):
        raise ConfigError("no such\n  machine")

    assert attempt(fail, None) == ItemOutcome(0, error="no such machine")


def test_an_error_of_others_is_told_with_its_type():
    assert text_of(ZeroDivisionError("division by zero")) == "ZeroDivisionError: division by zero"
