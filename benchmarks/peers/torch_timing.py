"""How the PyTorch workloads are timed: medians, and calls as CUDA graphs."""
import statistics
import time

import torch

GPU = torch.cuda.is_available()
DEVICE = "cuda" if GPU else "cpu"


def median_seconds(call, inner, rounds, warm):
    """Median over rounds of the time of one call, of `inner` in a queue; the first `warm` rounds do not count."""
    times = []
    for round_ in range(rounds + warm):
        start = time.perf_counter()
        for _ in range(inner):
            call()
        if GPU:
            torch.cuda.synchronize()
        if round_ >= warm:
            times.append((time.perf_counter() - start) / inner)
    return statistics.median(times)


def captured(call):
    """The call as a CUDA graph, after a few runs on a stream of its own, as PyTorch asks."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph.replay
