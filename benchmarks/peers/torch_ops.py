"""Single operators in PyTorch, at the shapes of `sealgraph bench ops`. Prints one JSON object, name -> seconds.

usage: torch_ops.py [--names] [WORD...]: operators whose name holds one of the words, all without. --names: print the names only."""
import json
import os
import statistics
import sys
import time

import torch
from torch.nn import functional

ROUNDS, WARM = 20, 5


def cases():
    """Name of sealgraph's row -> what to time. Built one at a time: the inputs of all together are large."""
    wide = lambda: torch.randn(8192, 1024)

    def attention():
        q, k, v = (torch.randn(16, 12, 256, 64) for _ in range(3))
        return lambda: functional.scaled_dot_product_attention(q, k, v)

    def convolution():
        x, w = torch.randn(288, 3, 24, 24), torch.randn(64, 3, 5, 5)
        return lambda: functional.conv2d(x, w, padding=2)

    def layer_norm():
        x, gamma, beta = wide(), torch.randn(1024), torch.randn(1024)
        return lambda: functional.layer_norm(x, (1024,), gamma, beta)

    def layer_norm_gradient():
        x, gamma, beta, g = wide().requires_grad_(), torch.randn(1024), torch.randn(1024), wide()
        gamma.requires_grad_(), beta.requires_grad_()
        return lambda: torch.autograd.grad(functional.layer_norm(x, (1024,), gamma, beta), (x, gamma, beta), g)

    def unary(function):
        def case():
            x = wide()
            return lambda: function(x)

        return case

    def matmul():
        a, b = torch.randn(1024, 1024), torch.randn(1024, 1024)
        return lambda: a @ b

    return {
        "attention/16x12x256x64": attention,
        "conv2d/288x3x24x24,64x5x5": convolution,
        "layer_norm/8192x1024": layer_norm,
        "layer_norm_gradient/8192x1024": layer_norm_gradient,
        "softmax/8192x1024": unary(lambda x: x.softmax(-1)),
        "gelu/8192x1024": unary(functional.gelu),
        "softplus/8192x1024": unary(functional.softplus),
        "matmul/1024x1024*1024x1024": matmul,
    }


def median_seconds(call):
    times = []
    for round_ in range(ROUNDS + WARM):
        start = time.perf_counter()
        call()
        if round_ >= WARM:
            times.append(time.perf_counter() - start)
    return statistics.median(times)


def measure(name, make):
    torch.manual_seed(0)
    call = make()
    with torch.set_grad_enabled("gradient" in name):
        return median_seconds(call)


torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "2")))
words = [word for word in sys.argv[1:] if word != "--names"]
wanted = {name: make for name, make in cases().items() if not words or any(word in name for word in words)}
if "--names" in sys.argv:
    print("\n".join(wanted))
else:
    results = {name: measure(name, make) for name, make in wanted.items()}
    print(json.dumps({"version": torch.__version__, "seconds": results}))
