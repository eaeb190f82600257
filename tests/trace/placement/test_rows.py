"""Host or device, and what is communication."""

from chakrakit import CollectiveType, TraceBuilder
from chakrakit.trace.placement import is_communication, kernels, on_device, on_host


def trace():
    t = TraceBuilder()
    t.comp("op", is_cpu_op=True)
    t.comp("kernel")
    t.collective("nccl:all_reduce", CollectiveType.ALL_REDUCE, 8, is_cpu_op=True)
    t.collective("gloo:all_reduce", CollectiveType.ALL_REDUCE, 8, is_cpu_op=True)
    t.send("ncclSend", src=0, dst=1, size=8)
    return t.build()


def test_a_row_that_does_not_say_runs_on_a_device():
    assert on_host(trace()).tolist() == [True, False, True, True, False]
    assert on_device(trace()).tolist() == [False, True, False, False, True]
    assert kernels(trace()).tolist() == [False, True, False, False, False]


def test_what_the_host_says_of_a_kernel_of_nccl_is_not_the_communication():
    """gloo's work is done by the host itself."""
    assert is_communication(trace()).tolist() == [False, False, False, True, True]


def test_a_trace_of_devices_alone_has_no_host():
    t = TraceBuilder()
    t.comp("kernel")
    assert not on_host(t.build()).any()
