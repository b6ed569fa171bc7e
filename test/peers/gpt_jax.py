"""The model of examples/gpt/gpt.clv, written with jax.numpy alone.

It is a peer: it shares nothing with Cleave but the names of the parameters, and
stands here so that a reader can compare the two texts line by line. The layers
are stacked and scanned, as `repeat` does; everything is f32.

Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

from functools import partial

import jax
import jax.numpy as jnp

EPSILON_NORM = 1e-5


def norm(x, gain):
    """Layer norm without a shift."""
    centred = x - jnp.mean(x, axis=-1, keepdims=True)
    scale = jax.lax.rsqrt(
        jnp.mean(centred * centred, axis=-1, keepdims=True) + EPSILON_NORM)
    return gain * centred * scale


def attention(x, wq, wk, wv, wo):
    """Causal; wq is [embed, head, key], wo [head, key, embed]."""
    length = x.shape[1]
    query = jnp.einsum("bse,ehk->bhsk", x, wq)
    keys = jnp.einsum("bse,ehk->bhsk", x, wk)
    values = jnp.einsum("bse,ehk->bhsk", x, wv)
    score = jnp.einsum("bhsk,bhtk->bhst", query, keys) * wq.shape[-1] ** -0.5
    position = jnp.arange(length)
    seen = position[:, None] >= position[None, :]
    weight = jax.nn.softmax(jnp.where(seen, score, -1e30), axis=-1)
    context = jnp.einsum("bhst,bhtk->bhsk", weight, values)
    return jnp.einsum("bhsk,hke->bse", context, wo)


def mlp(x, up, down):
    return jax.nn.gelu(x @ up, approximate=False) @ down


def block(x, p):
    x = x + attention(norm(x, p["norm1/gain"]), p["attention/wq"],
                      p["attention/wk"], p["attention/wv"], p["attention/wo"])
    x = x + mlp(norm(x, p["norm2/gain"]), p["mlp/up"], p["mlp/down"])
    return x


def loss(params, ids, labels):
    """Mean cross entropy. `params` is flat, by Cleave's paths; those of the
    layers start with `layer/` and are stacked."""
    table = params["embedding/table"]
    x = table[ids] + params["embedding/place"]
    layers = {path.removeprefix("layer/"): value
              for path, value in params.items() if path.startswith("layer/")}
    x, _ = jax.lax.scan(lambda x, p: (block(x, p), None), x, layers)
    logits = norm(x, params["output/norm/gain"]) @ table.T
    chosen = jnp.take_along_axis(logits, labels[..., None], axis=-1)[..., 0]
    return jnp.mean(jax.nn.logsumexp(logits, axis=-1) - chosen)


def init_state(params):
    return {"first": jax.tree.map(jnp.zeros_like, params),
            "second": jax.tree.map(jnp.zeros_like, params)}


def train_step(params, state, step, ids, labels, *, peak, warmup, beta1, beta2,
               epsilon, decay, clip):
    """One step of AdamW with decoupled decay, after clipping by global norm. The
    rate rises to `peak` over `warmup` steps. `step` counts from 1. Gives (loss,
    params, state)."""
    value, gradients = jax.value_and_grad(loss)(params, ids, labels)
    if clip is not None:
        length = jnp.sqrt(sum(jnp.sum(g * g) for g in gradients.values()))
        scale = jnp.minimum(1.0, clip / length)
        gradients = jax.tree.map(lambda g: g * scale, gradients)
    first = jax.tree.map(lambda m, g: beta1 * m + (1 - beta1) * g,
                         state["first"], gradients)
    second = jax.tree.map(lambda v, g: beta2 * v + (1 - beta2) * g * g,
                          state["second"], gradients)
    rate = peak * jnp.minimum(step / warmup, 1.0)
    fix1 = 1 - beta1 ** step
    fix2 = 1 - beta2 ** step

    def update(p, m, v):
        return p - rate * (m / fix1 / (jnp.sqrt(v / fix2) + epsilon) + decay * p)

    params = jax.tree.map(update, params, first, second)
    return value, params, {"first": first, "second": second}


ADAMW = dict(peak=2e-3, warmup=50, beta1=0.9, beta2=0.95, epsilon=1e-8, decay=0.1,
             clip=1.0)


def make_step(**options):
    """`train_step`, ready for jax.jit, with the example's figures."""
    return partial(train_step, **{**ADAMW, **options})


def shapes(layers, width, heads, length, tokens):
    """The shape of each parameter, by path, grouped heads left out."""
    key, ff = width // heads, 4 * width
    return {
        "embedding/table": (tokens, width),
        "embedding/place": (length, width),
        "layer/norm1/gain": (layers, width),
        "layer/attention/wq": (layers, width, heads, key),
        "layer/attention/wk": (layers, width, heads, key),
        "layer/attention/wv": (layers, width, heads, key),
        "layer/attention/wo": (layers, heads, key, width),
        "layer/norm2/gain": (layers, width),
        "layer/mlp/up": (layers, width, ff),
        "layer/mlp/down": (layers, ff, width),
        "output/norm/gain": (width,),
    }
