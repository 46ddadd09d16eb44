"""The SEAL-NCE training step and prediction in JAX, jit-compiled. Prints one JSON object, name -> seconds.

The workload is that of `sealgraph bench`: 32 rows, 20 candidates, two softplus layers of 400, a global term of 200; one loss-net
update, then one task-net update, both by Adam; no dropout, no clipping. Prediction is on 4096 rows.
"""
import json
import statistics
import sys
import time

import jax
import jax.numpy as jnp
import optax

SHAPES = {"bibtex": (1836, 159), "delicious": (500, 983), "eurlexev": (5000, 3993)}
BATCH, CANDIDATES, HIDDEN, GLOBAL, PREDICT = 32, 20, 400, 200, 4096
softplus = jax.nn.softplus


def matrix(seed, rows, columns):
    return 0.05 * jax.random.normal(jax.random.PRNGKey(seed), (rows, columns))


def feature_parameters(inputs):
    return {"W1": matrix(1, inputs, HIDDEN), "c1": jnp.zeros(HIDDEN), "W2": matrix(2, HIDDEN, HIDDEN), "c2": jnp.zeros(HIDDEN)}


def features(p, x):
    return softplus(softplus(x @ p["W1"] + p["c1"]) @ p["W2"] + p["c2"])


def logits(p, x):
    return features(p["features"], x) @ p["G"].T


def energy(p, x, y):
    """E(x, y), the negative score, of candidates y [B, K, L]."""
    local = jnp.einsum("bl,bkl->bk", features(p["features"], x) @ p["b"].T, y)
    return -(local + softplus(y @ p["M"].T + p["m0"]) @ p["v"])


def cross_entropy(z, y):
    return (softplus(z) - z * y).sum(-1).mean()


def make_step(optimiser, x, gold):
    def nce(loss_net, z, candidates):
        log_noise = (candidates * jax.nn.log_sigmoid(z)[:, None] + (1 - candidates) * jax.nn.log_sigmoid(-z)[:, None]).sum(-1)
        r = -energy(loss_net, x, candidates) - log_noise
        return (jax.nn.logsumexp(r, axis=1) - r[:, 0]).mean()

    def task_loss(task_net, loss_net):
        z = logits(task_net, x)
        return energy(loss_net, x, jax.nn.sigmoid(z)[:, None])[:, 0].mean() + cross_entropy(z, gold)

    @jax.jit
    def step(task_net, loss_net, task_state, loss_state, key):
        key, draw = jax.random.split(key)
        z = logits(task_net, x)
        p = jnp.broadcast_to(jax.nn.sigmoid(z)[:, None], (BATCH, CANDIDATES, z.shape[1]))
        noise = jax.random.bernoulli(draw, p).astype(jnp.float32)
        candidates = jnp.concatenate([gold[:, None], noise], axis=1)
        change, loss_state = optimiser.update(jax.grad(nce)(loss_net, z, candidates), loss_state)
        loss_net = optax.apply_updates(loss_net, change)
        change, task_state = optimiser.update(jax.grad(task_loss)(task_net, loss_net), task_state)
        return optax.apply_updates(task_net, change), loss_net, task_state, loss_state, key

    return step


def median_seconds(call, state, inner, rounds=12):
    """Median over rounds of the time of one call in a queue of `inner` calls."""
    times = []
    for round_ in range(rounds + 3):
        start = time.perf_counter()
        for _ in range(inner):
            state = call(*state)
        jax.block_until_ready(state)
        if round_ >= 3:
            times.append((time.perf_counter() - start) / inner)
    return statistics.median(times)


def measure(name, inputs, labels):
    keys = jax.random.split(jax.random.PRNGKey(0), 3)
    x = (jax.random.uniform(keys[0], (BATCH, inputs)) < 0.04).astype(jnp.float32)
    gold = (jax.random.uniform(keys[1], (BATCH, labels)) < 0.03).astype(jnp.float32)
    task_net = {"features": feature_parameters(inputs), "G": matrix(3, labels, HIDDEN)}
    loss_net = {"features": feature_parameters(inputs), "b": matrix(4, labels, HIDDEN), "M": matrix(5, GLOBAL, labels),
                "m0": jnp.zeros(GLOBAL), "v": matrix(6, 1, GLOBAL)[0]}
    adam = optax.adam(1e-3)
    state = (task_net, loss_net, adam.init(task_net), adam.init(loss_net), keys[2])
    step = median_seconds(make_step(adam, x, gold), state, inner=10)
    rows = jax.random.uniform(keys[0], (PREDICT, inputs))
    predict = jax.jit(lambda p, x: jax.nn.sigmoid(logits(p, x)) >= 0.5)
    return {f"seal_nce/{name}": step,
            f"predict/{name}": median_seconds(lambda *_: (predict(task_net, rows),), (), inner=3)}


results = {}
for shape in sys.argv[1:] or SHAPES:
    results.update(measure(shape, *SHAPES[shape]))
print(json.dumps({"version": jax.__version__, "seconds": results}))
