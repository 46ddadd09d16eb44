"""The SEAL-NCE training step and prediction in PyTorch, the workload of jax_step.py. Prints one JSON object, name -> seconds.

usage: torch_step.py [--graph] [SHAPE ...]; on a GPU where there is one, --graph as CUDA graphs."""
import json
import os
import sys

import torch
from torch.nn.functional import binary_cross_entropy_with_logits, logsigmoid, softplus

from torch_timing import DEVICE, GPU, captured, median_seconds

GRAPH = "--graph" in sys.argv
SHAPES = {"bibtex": (1836, 159), "delicious": (500, 983), "eurlexev": (5000, 3993)}
BATCH, CANDIDATES, HIDDEN, GLOBAL, PREDICT = 32, 20, 400, 200, 4096


def matrix(*shape):
    return torch.nn.Parameter(0.05 * torch.randn(*shape))


class Features(torch.nn.Module):
    def __init__(self, inputs):
        super().__init__()
        self.first, self.second = torch.nn.Linear(inputs, HIDDEN), torch.nn.Linear(HIDDEN, HIDDEN)

    def forward(self, x):
        return softplus(self.second(softplus(self.first(x))))


class TaskNet(torch.nn.Module):
    def __init__(self, inputs, labels):
        super().__init__()
        self.features, self.G = Features(inputs), matrix(labels, HIDDEN)

    def forward(self, x):
        return self.features(x) @ self.G.t()


class LossNet(torch.nn.Module):
    def __init__(self, inputs, labels):
        super().__init__()
        self.features, self.b = Features(inputs), matrix(labels, HIDDEN)
        self.M, self.v = torch.nn.Linear(labels, GLOBAL), matrix(GLOBAL)

    def forward(self, x, y):
        """E(x, y), the negative score, of candidates y [B, K, L]."""
        local = ((self.features(x) @ self.b.t())[:, None] * y).sum(-1)
        return -(local + softplus(self.M(y)) @ self.v)


def make_step(task_net, loss_net, x, gold):
    task_adam, loss_adam = (torch.optim.Adam(net.parameters(), 1e-3, fused=GPU or None, capturable=GRAPH)
                            for net in (task_net, loss_net))

    def descend(adam, loss):
        adam.zero_grad(set_to_none=True)
        loss.backward()
        adam.step()

    def step():
        with torch.no_grad():
            z = task_net(x)
            p = z.sigmoid()[:, None].expand(BATCH, CANDIDATES, z.shape[1])
            candidates = torch.cat([gold[:, None], torch.bernoulli(p)], 1)
            log_noise = (candidates * logsigmoid(z)[:, None] + (1 - candidates) * logsigmoid(-z)[:, None]).sum(-1)
        r = -loss_net(x, candidates) - log_noise
        descend(loss_adam, (r.logsumexp(1) - r[:, 0]).mean())
        z = task_net(x)
        cross_entropy = binary_cross_entropy_with_logits(z, gold, reduction="none").sum(-1).mean()
        descend(task_adam, loss_net(x, z.sigmoid()[:, None])[:, 0].mean() + cross_entropy)

    return step


def measure(name, inputs, labels):
    torch.manual_seed(0)
    x, gold = ((torch.rand(BATCH, n, device=DEVICE) < part).float() for n, part in ((inputs, 0.04), (labels, 0.03)))
    task_net = TaskNet(inputs, labels).to(DEVICE)
    how = captured if GRAPH else lambda call: call
    times = {"inner": 10 if GPU else 1, "rounds": 30, "warm": 5}
    step = median_seconds(how(make_step(task_net, LossNet(inputs, labels).to(DEVICE), x, gold)), **times)
    rows = torch.rand(PREDICT, inputs, device=DEVICE)
    with torch.no_grad():
        predict = median_seconds(how(lambda: task_net(rows).sigmoid() >= 0.5), **times)
    return {f"seal_nce/{name}": step, f"predict/{name}": predict}


torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "2")))
results = {}
for shape in [word for word in sys.argv[1:] if word != "--graph"] or SHAPES:
    results.update(measure(shape, *SHAPES[shape]))
print(json.dumps({"version": torch.__version__ + (" graph" if GRAPH else ""), "seconds": results}))
