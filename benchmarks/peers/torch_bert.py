"""A classifier on BERT in PyTorch, the workload of jax_bert.py. Prints one JSON object, name -> seconds.

Products in bfloat16 by autocast, weights in float32, fused AdamW, attention by scaled_dot_product_attention; Hessian products (reverse
over reverse) with attention written out, since the fused kernels have no second derivative.
usage: torch_bert.py eager|graph|compile [train/B32T128 ...] [--tiny]
"""
import json
import sys
import time

import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits, gelu, scaled_dot_product_attention

from torch_timing import DEVICE, GPU, captured, median_seconds

TINY = "--tiny" in sys.argv
LAYERS, WIDTH, HEADS, WORDS = (2, 64, 4, 500) if TINY else (12, 768, 12, 30522)
LABELS, PLACES = 54, 512
ROWS = ["train/B32T128", "train/B32T256", "train/B32T512", "gradient/B16T256", "hvp/B16T256"]


def attention_apart(q, k, v):
    scores = q @ k.transpose(-2, -1) / (WIDTH // HEADS) ** 0.5
    return scores.float().softmax(-1).to(v.dtype) @ v


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.out, self.norm1 = nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH, 1e-12)
        self.up, self.down, self.norm2 = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH), nn.LayerNorm(WIDTH, 1e-12)

    def forward(self, x, attention):
        batch, length, _ = x.shape
        q, k, v = (f(x).view(batch, length, HEADS, WIDTH // HEADS).transpose(1, 2) for f in (self.query, self.key, self.value))
        x = self.norm1(x + self.out(attention(q, k, v).transpose(1, 2).reshape(batch, length, WIDTH)))
        return self.norm2(x + self.down(gelu(self.up(x))))


class Classifier(nn.Module):
    def __init__(self, attention):
        super().__init__()
        self.attention = attention
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(PLACES, WIDTH)
        self.norm, self.layers = nn.LayerNorm(WIDTH, 1e-12), nn.ModuleList(Layer() for _ in range(LAYERS))
        self.head = nn.Linear(WIDTH, LABELS)
        for name, p in self.named_parameters():
            if p.dim() == 2:
                nn.init.normal_(p, std=0.02)

    def forward(self, ids):
        x = self.norm(self.words(ids) + self.places.weight[:ids.shape[1]])
        for layer in self.layers:
            x = layer(x, self.attention)
        return self.head(x[:, 0])


def measure(row, form):
    what, shape = row.split("/")
    batch, length = (int(n) for n in shape[1:].split("T"))
    model = Classifier(attention_apart if what == "hvp" else scaled_dot_product_attention).to(DEVICE)
    forward = torch.compile(model) if form == "compile" else model
    ids = torch.randint(0, WORDS, (batch, length), device=DEVICE)
    y = (torch.rand(batch, LABELS, device=DEVICE) < 0.05).float()
    parameters = list(model.parameters())
    adam = torch.optim.AdamW(parameters, 1e-5, fused=GPU, capturable=form == "graph")
    directions = [torch.ones_like(p) for p in parameters]

    def loss():
        with torch.autocast(DEVICE, torch.bfloat16, cache_enabled=form != "graph"):
            z = forward(ids)
        return binary_cross_entropy_with_logits(z.float(), y, reduction="none").sum(-1).mean()

    def train():
        adam.zero_grad(set_to_none=True)
        loss().backward()
        adam.step()

    def gradient():
        return torch.autograd.grad(loss(), parameters)

    def product():
        g = torch.autograd.grad(loss(), parameters, create_graph=True)
        return torch.autograd.grad(sum((a * b).sum() for a, b in zip(g, directions)), parameters)

    call = {"train": train, "gradient": gradient, "hvp": product}[what]
    return median_seconds(captured(call) if form == "graph" else call, inner=5, rounds=7, warm=2)


arguments = [word for word in sys.argv[1:] if word != "--tiny"]
form, seconds = arguments[0], {}
torch.manual_seed(0)
for row in arguments[1:] or ROWS:
    try:
        started = time.perf_counter()
        seconds[f"bert/{row}"] = measure(row, form)
        print(f"{row} {form}: {seconds[f'bert/{row}'] * 1e3:.3f} ms ({time.perf_counter() - started:.0f} s)", file=sys.stderr,
              flush=True)
    except Exception as problem:
        print(f"{row} {form}: {repr(problem)[:300]}", file=sys.stderr, flush=True)
print(json.dumps({"version": f"{torch.__version__} {form}", "seconds": seconds}))
