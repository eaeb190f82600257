"""Nobody looks at progress unless somebody does."""

from chakrakit.parallel import quiet


def test_quiet_takes_any_progress_and_says_nothing(capsys):
    quiet(3, None)
    quiet(3, 10)
    assert capsys.readouterr() == ("", "")
