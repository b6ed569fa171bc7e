"""Times steps of the peer's GPT, and its lowering and compiling.

usage: jax_step.py step  --layers … --threads N --steps N
       jax_step.py build --layers … --data N --tensor N

Prints one JSON line. Run by bench/run.py in the environment with JAX.

Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import argparse
import json
import os
import pathlib
import sys
import time

parser = argparse.ArgumentParser()
parser.add_argument("what", choices=["step", "build"])
for size in ("layers", "width", "heads", "length", "tokens", "sequences"):
    parser.add_argument(f"--{size}", type=int, required=True)
parser.add_argument("--data", type=int, default=1)
parser.add_argument("--tensor", type=int, default=1)
parser.add_argument("--steps", type=int, default=10)
options = parser.parse_args()

# Before JAX is imported: as many CPU devices as the mesh has.
devices = options.data * options.tensor
os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={devices}"
os.environ["JAX_PLATFORMS"] = "cpu"

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy  # noqa: E402
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "test" / "peers"))
import gpt_jax  # noqa: E402

# Megatron's cut, as the plans of the Cleave side: heads, ff and vocabulary on
# `tensor`, the batch on `data`.
SPLITS = {
    "embedding/table": P("tensor", None),
    "layer/attention/wq": P(None, None, "tensor", None),
    "layer/attention/wk": P(None, None, "tensor", None),
    "layer/attention/wv": P(None, None, "tensor", None),
    "layer/attention/wo": P(None, "tensor", None, None),
    "layer/mlp/up": P(None, None, "tensor"),
    "layer/mlp/down": P(None, "tensor", None),
}

shapes = gpt_jax.shapes(options.layers, options.width, options.heads,
                        options.length, options.tokens)
mesh = Mesh(numpy.array(jax.devices()[:devices]).reshape(
    options.data, options.tensor), ("data", "tensor"))
of = {path: NamedSharding(mesh, SPLITS.get(path, P())) for path in shapes}
state_of = {"first": of, "second": of}
whole = NamedSharding(mesh, P())
batch = NamedSharding(mesh, P("data", None))
step = jax.jit(gpt_jax.make_step(), in_shardings=(of, state_of, whole, batch, batch),
               out_shardings=(whole, of, state_of), donate_argnums=(0, 1))


def build():
    params = {path: jax.ShapeDtypeStruct(shape, jnp.float32, sharding=of[path])
              for path, shape in shapes.items()}
    state = {"first": params, "second": params}
    ids = jax.ShapeDtypeStruct((options.sequences, options.length), jnp.int32,
                               sharding=batch)
    number = jax.ShapeDtypeStruct((), jnp.float32, sharding=whole)
    start = time.perf_counter()
    step.lower(params, state, number, ids, ids).compile()
    return {"seconds": time.perf_counter() - start}


def steps():
    numbers = numpy.random.default_rng(1)
    params = {path: numpy.ones(shape, "f4") if path.endswith("gain")
              else numbers.normal(0, 0.02, shape).astype("f4")
              for path, shape in shapes.items()}
    params = jax.device_put(params, of)
    state = jax.device_put(gpt_jax.init_state(params), state_of)
    ids = numbers.integers(0, options.tokens,
                           (options.sequences, options.length)).astype("i4")
    ids, labels = jax.device_put((ids, numpy.roll(ids, -1, 1)), batch)
    times = []
    for index in range(1, options.steps + 1):
        start = time.perf_counter()
        loss, params, state = step(params, state, jnp.float32(index), ids, labels)
        loss.block_until_ready()
        jax.block_until_ready(params)
        times.append(time.perf_counter() - start)
    return {"seconds": times, "loss": float(loss)}


print(json.dumps(build() if options.what == "build" else steps()))
