"""A classifier on BERT in JAX, jit-compiled. Prints one JSON object, name -> seconds, GiB of temporaries beside.

The workload is that of `sealgraph bench bert`: 12 layers, width 768, 12 heads, 54 labels, no padding, no dropout; products in
bfloat16, weights, normalisation and losses in float32; AdamW. Training and gradient use cuDNN's attention on a GPU, XLA's where that
fails; Hessian products (forward over reverse) need XLA's, since cuDNN's has no second derivative.
usage: jax_bert.py [train/B32T128 ...] [--tiny]
"""
import concurrent.futures
import json
import statistics
import sys
import time

import jax
import jax.numpy as jnp
import optax

TINY = "--tiny" in sys.argv
LAYERS, WIDTH, HEADS, WORDS = (2, 64, 4, 500) if TINY else (12, 768, 12, 30522)
LABELS, PLACES = 54, 512
ROWS = ["gradient/B16T256", "hvp/B16T256", "train/B32T128", "train/B32T256", "train/B32T512"]
GPU = jax.default_backend() == "gpu"
KERNELS = ("cudnn", "xla") if GPU else ("xla",)


def parameters():
    keys = iter(jax.random.split(jax.random.PRNGKey(0), 16 * LAYERS + 8))

    def weight(*shape):
        return 0.02 * jax.random.normal(next(keys), shape)

    def norm():
        return {"gain": jnp.ones(WIDTH), "shift": jnp.zeros(WIDTH)}

    def dense(inputs, outputs):
        return {"W": weight(inputs, outputs), "b": jnp.zeros(outputs)}

    layers = [{"qkv": dense(WIDTH, 3 * WIDTH), "out": dense(WIDTH, WIDTH), "norm1": norm(),
               "up": dense(WIDTH, 4 * WIDTH), "down": dense(4 * WIDTH, WIDTH), "norm2": norm()} for _ in range(LAYERS)]
    return {"words": weight(WORDS, WIDTH), "places": weight(PLACES, WIDTH), "norm": norm(), "layers": layers,
            "head": weight(WIDTH, LABELS)}


def bf16(x):
    return x.astype(jnp.bfloat16)


def dense(p, x):
    return x @ bf16(p["W"]) + bf16(p["b"])


def norm(p, x):
    x = x.astype(jnp.float32)
    centred = x - x.mean(-1, keepdims=True)
    return bf16(centred / jnp.sqrt((centred * centred).mean(-1, keepdims=True) + 1e-12) * p["gain"] + p["shift"])


def logits(p, ids, kernel):
    batch, length = ids.shape
    x = norm(p["norm"], p["words"][ids] + p["places"][:length])
    for layer in p["layers"]:
        qkv = dense(layer["qkv"], x).reshape(batch, length, 3 * HEADS, WIDTH // HEADS)
        a = jax.nn.dot_product_attention(*jnp.split(qkv, 3, 2), implementation=kernel)
        x = norm(layer["norm1"], x + dense(layer["out"], a.reshape(batch, length, WIDTH)))
        up = jax.nn.gelu(dense(layer["up"], x), approximate=False)
        x = norm(layer["norm2"], x + dense(layer["down"], up))
    return (x[:, 0] @ bf16(p["head"])).astype(jnp.float32)


def loss(p, ids, y, kernel):
    z = logits(p, ids, kernel)
    return (jax.nn.softplus(z) - z * y).sum(-1).mean()


def median_seconds(call, state, inner=5, rounds=7):
    """Median over rounds of the time of one call in a queue of `inner` calls."""
    times = []
    for round_ in range(rounds + 2):
        start = time.perf_counter()
        for _ in range(inner):
            state = call(*state)
        jax.block_until_ready(state)
        if round_ >= 2:
            times.append((time.perf_counter() - start) / inner)
    return statistics.median(times)


def product(p, v, ids, y, kernel):
    return jax.jvp(lambda p: jax.grad(loss)(p, ids, y, kernel), (p,), (v,))[1]


def prepare(row, kernel):
    """What is measured, compiled, and its arguments."""
    what, shape = row.split("/")
    batch, length = (int(n) for n in shape[1:].split("T"))
    keys = jax.random.split(jax.random.PRNGKey(1), 2)
    ids = jax.random.randint(keys[0], (batch, length), 0, WORDS)
    y = (jax.random.uniform(keys[1], (batch, LABELS)) < 0.05).astype(jnp.float32)
    p = parameters()
    if what == "train":
        optimiser = optax.adamw(1e-5)

        def step(p, state):
            change, state = optimiser.update(jax.grad(loss)(p, ids, y, kernel), state, p)
            return optax.apply_updates(p, change), state

        arguments = (p, optimiser.init(p))
        return jax.jit(step, donate_argnums=(0, 1)).lower(*arguments).compile(), arguments
    if what == "gradient":
        arguments = (p, ids, y)
        return jax.jit(lambda *a: jax.grad(loss)(*a, kernel)).lower(*arguments).compile(), arguments
    arguments = (p, jax.tree.map(jnp.ones_like, p), ids, y)
    return jax.jit(lambda *a: product(*a, kernel)).lower(*arguments).compile(), arguments


def prepare_any(row):
    """With cuDNN's attention if that is possible."""
    for kernel in KERNELS if not row.startswith("hvp") else ("xla",):
        try:
            return (*prepare(row, kernel), kernel)
        except Exception as problem:
            print(f"{row} {kernel}: {repr(problem)[:300]}", file=sys.stderr, flush=True)
    return None


started = time.perf_counter()
rows = [word for word in sys.argv[1:] if word != "--tiny"] or ROWS
with concurrent.futures.ThreadPoolExecutor() as pool:
    prepared = dict(zip(rows, pool.map(prepare_any, rows)))
print(f"compiled in {time.perf_counter() - started:.0f} s", file=sys.stderr, flush=True)
seconds, temporaries, kernels = {}, {}, {}
for row in rows:
    if not prepared[row]:
        continue
    compiled, arguments, kernel = prepared.pop(row)
    name = f"bert/{row}"
    step = compiled if row.startswith("train") else lambda *_: (compiled(*arguments),)
    seconds[name] = median_seconds(step, arguments if row.startswith("train") else ())
    temporaries[name], kernels[name] = compiled.memory_analysis().temp_size_in_bytes / 2**30, kernel
    print(f"{row} {kernel}: {seconds[name] * 1e3:.3f} ms", file=sys.stderr, flush=True)
    del arguments, compiled
print(json.dumps({"version": jax.__version__, "seconds": seconds, "temporary_gib": temporaries, "kernel": kernels}))
