#!/usr/bin/env python3
"""Trains examples/gpt with Cleave, under each of its plans, and with JAX from the
same values on the same batches, and demands the same loss at every step.

usage: compare_gpt.py --cleave BIN --work FOLDER [--venv FOLDER] [--steps N]

Exit: 0 the same, 1 not the same or something failed, 77 skipped because JAX
cannot be installed (a failure where CLEAVE_REQUIRE_PEERS or CI is set).

Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import argparse
import json
import os
import pathlib
import shlex
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TOLERANCE = 1e-4

# Small, and uneven on purpose: 7 heads over 4 and 5 sequences over 8 devices.
SIZES = dict(layers=3, width=56, heads=7, length=32, tokens=96, sequences=5)
# The text is one that every clone has.
TEXT = ROOT / "LICENSE"
PLANS = ["one", "data8", "tensor4", "wide", "sequence", "zero3", "wide_zero1",
         "deep"]


def run(command, **options):
    print("$", shlex.join(str(word) for word in command), flush=True)
    subprocess.run([str(word) for word in command], check=True, **options)


def train(cleave, work, steps):
    """Builds and trains under each plan; gives plan -> its files."""
    plan_file = work / "gpt.plan"
    sizes = [word for name, value in SIZES.items()
             for word in ("-D", f"{name}={value}")]
    run([cleave, "build", ROOT / "examples/gpt/gpt.clv", "-o", plan_file, *sizes])
    runs = {}
    for plan in PLANS:
        files = {name: work / f"{plan}.{name}"
                 for name in ("initial", "batches", "metrics")}
        for file in files.values():
            file.unlink(missing_ok=True)
        common = [cleave, "run", plan_file, "--data", TEXT, "--plan", plan,
                  "--seed", "7", "--quiet"]
        run([*common, "--steps", "0", "--save", files["initial"]])
        run([*common, "--steps", steps, "--metrics", files["metrics"],
             "--dump-batches", files["batches"]])
        runs[plan] = files
    return runs


def outer(options):
    """Runs in any Python: makes the environment, trains, starts `inner`."""
    sys.path.insert(0, str(HERE))
    import environment

    try:
        python = environment.ensure(options.venv or options.work)
    except environment.Unreachable as problem:
        print(problem)
        if environment.required():
            print("error: JAX could not be installed, and is required here")
            return 1
        print("*" * 72)
        print("SKIPPED: Cleave was NOT compared with JAX: PyPI cannot be reached.")
        print("*" * 72)
        return 77
    options.work.mkdir(parents=True, exist_ok=True)
    runs = train(options.cleave, options.work, options.steps)
    work = options.work / "runs.json"
    work.write_text(json.dumps({plan: {name: str(file) for name, file in files.items()}
                                for plan, files in runs.items()}))
    return subprocess.run(
        [str(python), str(HERE / "compare_gpt.py"), "--inner", str(work),
         "--steps", str(options.steps)],
        env=dict(os.environ, JAX_PLATFORMS="cpu")).returncode


def inner(options):
    """Runs in the environment with JAX."""
    import jax

    sys.path.insert(0, str(HERE))
    import gpt_jax

    step_function = jax.jit(gpt_jax.make_step())
    runs = json.loads(options.inner.read_text())
    disagreeing = [plan for plan, files in runs.items()
                   if not agrees(plan, files, options.steps, gpt_jax, step_function)]
    print(f"\n{len(runs)} plans, {len(disagreeing)} that disagree with JAX "
          f"{' '.join(disagreeing)}")
    return 1 if disagreeing else 0


def agrees(plan, files, steps, gpt_jax, step_function):
    """Whether a run's losses are JAX's."""
    import jax.numpy as jnp
    import numpy
    from safetensors.numpy import load_file

    print(f"\nplan {plan} beside JAX", flush=True)
    wanted = gpt_jax.shapes(SIZES["layers"], SIZES["width"], SIZES["heads"],
                            SIZES["length"], SIZES["tokens"])
    leaves = load_file(files["initial"])
    params = {name.removeprefix("params/"): value for name, value in leaves.items()
              if name.startswith("params/")}
    if set(params) != set(wanted):
        print("error: the checkpoint's parameters are not the model's:",
              sorted(set(params) ^ set(wanted)))
        return False
    # Cleave keeps a head's two factors apart: [kv, group] is [head] here.
    params = {path: jnp.asarray(value.reshape(wanted[path]))
              for path, value in params.items()}

    # Each step: the ids of every input in the model's order, as raw i32.
    shape = (SIZES["sequences"], SIZES["length"])
    batches = numpy.fromfile(files["batches"], dtype="<i4")
    if batches.size != steps * 2 * shape[0] * shape[1]:
        print(f"error: {files['batches']} holds {batches.size} numbers")
        return False
    batches = batches.reshape(steps, 2, *shape)
    # The labels are the ids one place further on.
    if not (batches[:, 0, :, 1:] == batches[:, 1, :, :-1]).all():
        print("error: the labels are not the next ids")
        return False

    losses = {}
    for line in pathlib.Path(files["metrics"]).read_text().splitlines():
        record = json.loads(line)
        losses[record["step"]] = record["loss"]
    if sorted(losses) != list(range(1, steps + 1)):
        print("error: the metrics have the steps", sorted(losses))
        return False

    state = gpt_jax.init_state(params)
    worst = 0.0
    print("step      Cleave         JAX  difference")
    for step in range(1, steps + 1):
        ids, labels = batches[step - 1]
        value, params, state = step_function(params, state, jnp.float32(step),
                                             ids, labels)
        difference = abs(float(value) - losses[step])
        worst = max(worst, difference)
        print(f"{step:4} {losses[step]:11.6f} {float(value):11.6f} "
              f"{difference:11.2e}")
    good = worst <= TOLERANCE
    print(f"largest difference {worst:.2e}, allowed {TOLERANCE:.0e}: "
          f"{'ok' if good else 'FAILED'}")
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cleave", type=pathlib.Path)
    parser.add_argument("--work", type=pathlib.Path)
    parser.add_argument("--venv", type=pathlib.Path)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--inner", type=pathlib.Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    return inner(options) if options.inner else outer(options)


if __name__ == "__main__":
    sys.exit(main())
