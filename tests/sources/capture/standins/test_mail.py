"""What one rank tells the others in words."""

from chakrakit.sources.capture.standins import Mail


def test_what_one_capture_put_the_next_can_get():
    first = Mail({})
    first.put("seed", {"value": 7})
    second = Mail(first.sent)
    assert (second.get("seed"), second.get("other")) == ({"value": 7}, None)
    second.put("shape", (2, 3))
    assert second.names() == ["seed", "shape"]
    assert list(second.sent) == ["shape"]


def test_what_cannot_be_pickled_stays_untold():
    mail = Mail({})
    mail.put("x", 1)
    mail.put("x", lambda: None)
    assert mail.get("x") is None
