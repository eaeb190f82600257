"""Futures of communication: what follows them runs when it is waited for."""

import torch

from chakrakit.sources.capture.standins.distributed import Landed


def test_what_a_collective_gave_is_there_at_once():
    assert Landed([1, 2]).wait() == [1, 2]
    assert Landed(3).done()


def test_functions_that_follow_run_once_in_order_when_somebody_waits():
    ran = []

    def doubled(future):
        ran.append("doubled")
        return 2 * future.value()

    def named(future):
        ran.append("named")
        return f"got {future.wait()}"

    last = Landed(4).then(doubled).then(named)
    assert (ran, last.done()) == ([], True)
    assert [last.wait(), last.wait()] == ["got 8", "got 8"]
    assert sorted(ran) == ["doubled", "named"]


def test_a_function_that_gives_a_future_gives_what_it_holds():
    inner = torch.futures.Future()
    inner.set_result(5)
    assert Landed(0).then(lambda _: inner).value() == 5
