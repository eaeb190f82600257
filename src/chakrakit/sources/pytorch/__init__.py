"""PyTorch: its execution-trace observer, its Kineto profiler, and a collector for both."""
