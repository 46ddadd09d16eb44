"""Gradients and Hessian products in JAX, jit-compiled. Prints one JSON object, name -> seconds.

The nets are those of `sealgraph bench hvp`: a 4-layer post-LN encoder (width 256, 4 heads, 4 x 128 rows, mean square of the
output), and the task loss E(x, s(z)) + BCE(z, y) of bibtex's shape on 32 dense rows. Products are forward over reverse.
"""
import json
import statistics
import sys
import time

import jax
import jax.numpy as jnp

LAYERS, WIDTH, HEADS, INNER, BATCH, ROWS = 4, 256, 4, 1024, 4, 128
HIDDEN, GLOBAL, INPUTS, LABELS, EXAMPLES = 400, 200, 1836, 159, 32
softplus = jax.nn.softplus
keys = iter(jax.random.split(jax.random.PRNGKey(0), 256))


def matrix(*shape, scale=0.02):
    return scale * jax.random.normal(next(keys), shape)


def dense_parameters(inputs, outputs):
    return {"W": matrix(outputs, inputs), "b": jnp.zeros(outputs)}


def norm_parameters():
    return {"g": jnp.ones(WIDTH), "b": jnp.zeros(WIDTH)}


def layer_parameters():
    return {"q": dense_parameters(WIDTH, WIDTH), "k": dense_parameters(WIDTH, WIDTH), "v": dense_parameters(WIDTH, WIDTH),
            "o": dense_parameters(WIDTH, WIDTH), "n1": norm_parameters(), "up": dense_parameters(WIDTH, INNER),
            "down": dense_parameters(INNER, WIDTH), "n2": norm_parameters()}


def dense(p, x):
    return x @ p["W"].T + p["b"]


def norm(p, x):
    centred = x - x.mean(-1, keepdims=True)
    return centred * jax.lax.rsqrt((centred * centred).mean(-1, keepdims=True) + 1e-12) * p["g"] + p["b"]


def attention(p, x):
    q, k, v = (dense(p[name], x).reshape(BATCH, ROWS, HEADS, WIDTH // HEADS) for name in "qkv")
    scores = jnp.einsum("bihd,bjhd->bhij", q, k) / (WIDTH // HEADS) ** 0.5
    return jnp.einsum("bhij,bjhd->bihd", jax.nn.softmax(scores), v).reshape(BATCH, ROWS, WIDTH)


def encoder_loss(layers, x):
    for p in layers:
        x = norm(p["n1"], x + dense(p["o"], attention(p, x)))
        x = norm(p["n2"], x + dense(p["down"], jax.nn.gelu(dense(p["up"], x), approximate=False)))
    return (x * x).mean()


def feature_parameters():
    return {"W1": matrix(INPUTS, HIDDEN), "c1": jnp.zeros(HIDDEN), "W2": matrix(HIDDEN, HIDDEN), "c2": jnp.zeros(HIDDEN)}


def features(p, x):
    return softplus(softplus(x @ p["W1"] + p["c1"]) @ p["W2"] + p["c2"])


def task_loss(task, energy, x, y):
    z = features(task["features"], x) @ task["G"].T
    p = jax.nn.sigmoid(z)
    local = ((features(energy["features"], x) @ energy["b"].T) * p).sum(-1)
    score = local + softplus(p @ energy["M"].T + energy["m0"]) @ energy["v"]
    return (softplus(z) - z * y).sum(-1).mean() - score.mean()


def median_seconds(call, inner=5, rounds=12):
    times = []
    for round_ in range(rounds + 3):
        start = time.perf_counter()
        for _ in range(inner):
            answer = call()
        jax.block_until_ready(answer)
        if round_ >= 3:
            times.append((time.perf_counter() - start) / inner)
    return statistics.median(times)


def measure(name, loss, parameters, *rest):
    """Data are arguments, not constants, so that nothing is folded that ours computes."""
    v = jax.tree.map(lambda p: jax.random.normal(next(keys), p.shape), parameters)
    gradient = jax.jit(jax.grad(loss))
    product = jax.jit(lambda p, v, *rest: jax.jvp(lambda p: jax.grad(loss)(p, *rest), (p,), (v,))[1])
    return {f"{name}/gradient": median_seconds(lambda: gradient(parameters, *rest)),
            f"{name}/hvp": median_seconds(lambda: product(parameters, v, *rest))}


results = {}
for which in sys.argv[1:] or ("encoder", "bibtex"):
    if which == "encoder":
        parameters = [layer_parameters() for _ in range(LAYERS)]
        results.update(measure("encoder", encoder_loss, parameters, matrix(BATCH, ROWS, WIDTH, scale=1)))
    else:
        task = {"features": feature_parameters(), "G": matrix(LABELS, HIDDEN)}
        energy = {"features": feature_parameters(), "b": matrix(LABELS, HIDDEN), "M": matrix(GLOBAL, LABELS),
                  "m0": jnp.zeros(GLOBAL), "v": matrix(GLOBAL)}
        y = (jax.random.uniform(next(keys), (EXAMPLES, LABELS)) < 0.03).astype(jnp.float32)
        results.update(measure("bibtex", task_loss, task, energy, matrix(EXAMPLES, INPUTS, scale=1), y))
print(json.dumps({"version": jax.__version__, "seconds": results}))
