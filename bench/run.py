#!/usr/bin/env python3
"""Cleave beside PyTorch and JAX on this machine's CPU, as ratios within one run.

usage: bench/run.py --cleave BIN --work FOLDER --text FILE [--rounds N]
                    [--only step|memory|mixed|pipeline|reproducible|overhead|rules
                            |collectives|exposed|hops|where|build]
                    [--sizes medium,large] [--write docs/performance.md]

Rounds alternate between them, so that a change of the machine's speed falls on
all; a ratio is taken within each round. Tables give the median and, in
brackets, the smallest and largest of the rounds. Started by scripts/bench.

Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import argparse
import json
import os
import pathlib
import platform
import re
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path.insert(0, str(ROOT / "test" / "peers"))
import environment  # noqa: E402

# The sizes of steps: two are in no other table of the field, so that nothing is tuned
# to those that are.
SIZES = {
    "small": dict(layers=4, width=128, heads=4, length=128, tokens=256, sequences=8),
    "medium": dict(layers=6, width=384, heads=6, length=256, tokens=256, sequences=4),
    "large": dict(layers=12, width=576, heads=9, length=256, tokens=4096, sequences=2),
    "long": dict(layers=3, width=320, heads=5, length=1024, tokens=500, sequences=1),
    "wide": dict(layers=2, width=1000, heads=10, length=120, tokens=1000, sequences=3)}
STEP = SIZES["medium"]  # 10.8 million parameters
DEEP = dict(layers=32, width=512, heads=8, length=256, tokens=256, sequences=64)

# The benchmark's own plans, of the example's model.
SOURCE = '''
use std.optim, std.schedules, "{example}"

plan bench(replicas: int = 1, parts: int = 1) of gpt {{
  mesh [data: replicas, tensor: parts]
  shard batch           on data
  shard head, ff, vocab on tensor
}}

plan piped(stages: int, micros: int) of gpt {{
  mesh [pipe: stages]
  micro batch into micros
  pipeline layer on pipe counting output with one_f_one_b
}}

run bench of gpt with adamw(rate: warmup(2e-3, 50), decay: 0.1), clip(1.0),
                      precision(params: f32, compute: {compute}) {{
  plans p = {plan}
  start p
}}
'''


def capture(command, cores=None, **options):
    command = [str(word) for word in command]
    if cores:
        command = ["taskset", "-c", ",".join(map(str, range(cores)))] + command
    got = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                         text=True, **options)
    if got.returncode != 0:
        sys.exit(f"error: {' '.join(command)}\n{got.stdout}{got.stderr}")
    return got.stdout


def peak_of(command):
    """The most bytes that a process had."""
    command = [str(word) for word in command]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"error: {' '.join(command)}")
    return usage.ru_maxrss * 1024


def words(sizes):
    return [word for name, value in sizes.items() for word in (f"--{name}", value)]


class Bench:
    def __init__(self, options, python):
        self.options = options
        self.python = python
        self.torch_python = None  # made when it is first asked for: it is large
        self.work = options.work
        self.work.mkdir(parents=True, exist_ok=True)

    def jax(self, what, sizes, cores, **more):
        """Fails where a dim does not divide over an axis: it cannot."""
        return json.loads(capture(
            [self.python, HERE / "jax_step.py", what, *words(sizes), *words(more)],
            cores=cores).splitlines()[-1])

    def torch(self, sizes, cores, *more):
        return self.torch_script("torch_step.py", sizes, cores, "--threads", cores,
                                 "--steps", 10, *more)

    def torch_script(self, script, sizes, cores, *more):
        if self.torch_python is None:
            self.torch_python = environment.ensure(self.work.parent / "peers", "torch")
        return json.loads(capture([self.torch_python, HERE / script, *words(sizes), *more],
                                  cores=cores).splitlines()[-1])

    def build(self, sizes, plan, compute="f32"):
        """Builds; gives the plan file and the seconds of the whole process."""
        name = "_".join(re.findall(r"\w+", plan) + [compute])
        source = self.work / (name + ".clv")
        source.write_text(SOURCE.format(
            example=ROOT / "examples/gpt/gpt.clv", plan=plan, compute=compute))
        target = source.with_suffix(".plan")
        defines = [word for name, value in sizes.items()
                   for word in ("-D", f"{name}={value}")]
        start = time.perf_counter()
        capture([self.options.cleave, "build", source, "--run", "bench", "-o", target,
                 "--kernel-cache", "off", *defines])
        return target, time.perf_counter() - start

    def cleave_steps(self, plan, steps, cores, name=None):
        """Of the plan that starts, or of another of the file."""
        metrics = plan.with_suffix(".metrics")
        metrics.unlink(missing_ok=True)
        start = ["--plan", name] if name else []
        capture([self.options.cleave, "run", plan, "--data", self.options.text,
                 "--steps", steps, "--quiet", "--metrics", metrics, *start], cores=cores)
        records = [json.loads(line) for line in metrics.read_text().splitlines()]
        return [seconds_of(record) for record in records if "loss" in record]


def seconds_of(record):
    """A step's duration in a line of metrics."""
    if "seconds" in record:
        return record["seconds"]
    return record["ms"] / 1000


def steady(times):
    """The median step, without the first two."""
    return statistics.median(times[2:])


def spread(values, unit=1.0, digits=0):
    low, middle, high = min(values), statistics.median(values), max(values)
    return (f"{middle * unit:.{digits}f} "
            f"[{low * unit:.{digits}f}, {high * unit:.{digits}f}]")


def row(*cells):
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


# The devices of a step beside the threads of a peer: data and tensor.
MESHES = [("one device", 1, 1), ("data 2", 2, 1), ("tensor 2", 1, 2)]


def bench_step(bench):
    """Sizes × devices; every peer has as many threads as there are devices."""
    out = ["### A training step", "",
           "The model of `examples/gpt/gpt.clv`, f32, AdamW and clipping; a core for "
           "each device, and as many threads for the peers on the same cores; "
           "milliseconds. PyTorch: eager with fused attention and fused AdamW, and "
           "under `torch.compile`. JAX: layers scanned, the same mesh.", ""]
    names = bench.options.sizes.split(",")
    out += [row("", "layers × width", "heads", "context", "vocabulary", "batch"),
            row(*["---"] * 6)]
    for name in names:
        s = SIZES[name]
        out.append(row(name, f"{s['layers']} × {s['width']}", s["heads"], s["length"],
                       s["tokens"], s["sequences"]))
    out += ["", row("size", "devices", "Cleave", "PyTorch", "compiled", "JAX",
                    "/ PyTorch", "/ compiled", "/ JAX"), row(*["---"] * 9)]
    for name in names:
        for mesh, data, tensor in MESHES:
            if data * tensor <= os.cpu_count():
                out.append(step_row(bench, name, mesh, data, tensor))
    return out


def step_row(bench, name, mesh, data, tensor):
    sizes, cores = SIZES[name], data * tensor
    divides = sizes["sequences"] % data == 0 and sizes["heads"] % tensor == 0
    plan, _ = bench.build(sizes, f"bench({data}, {tensor})")
    runs = {
        "Cleave": lambda: bench.cleave_steps(plan, 10, cores),
        "PyTorch": lambda: bench.torch(sizes, cores)["seconds"],
        "compiled": lambda: bench.torch(sizes, cores, "--compile")["seconds"],
        "JAX": lambda: bench.jax("step", sizes, cores, data=data, tensor=tensor,
                                 steps=10)["seconds"]}
    if not divides:
        del runs["JAX"]  # its shardings must
    times = {peer: [] for peer in runs}
    for _ in range(bench.options.rounds):
        for peer, run in runs.items():
            times[peer].append(steady(run()))
        print(f"{name}, {mesh}: " + ", ".join(
            f"{peer} {values[-1] * 1e3:.0f} ms" for peer, values in times.items()),
            flush=True)
    ours = times.pop("Cleave")
    ratios = [spread([a / b for a, b in zip(ours, theirs)], digits=2)
              for theirs in times.values()]
    cells = [spread(theirs, 1e3) for theirs in times.values()]
    if not divides:
        cells.append("does not divide")
        ratios.append("—")
    return row(name, mesh, spread(ours, 1e3), *cells, *ratios)


def bench_memory(bench):
    """What a step needs beside the process itself."""
    out = ["### Memory of a step", "",
           "The steps above on one device: the most resident memory of the process, "
           "without what it has before there is a model (its code and libraries), MiB. "
           "PyTorch: eager.", "",
           row("size", "Cleave", "PyTorch", "Cleave / PyTorch"), row(*["---"] * 4)]
    cleave = bench.options.cleave
    base = peak_of([cleave, "--version"])
    for name in bench.options.sizes.split(","):
        plan, _ = bench.build(SIZES[name], "bench(1, 1)")
        ours = peak_of([cleave, "run", plan, "--data", bench.options.text, "--steps", 3,
                        "--quiet"]) - base
        got = bench.torch(SIZES[name], 1)
        theirs = got["peak"] - got["base"]
        out.append(row(name, round(ours / MEBI), round(theirs / MEBI),
                       f"{ours / theirs:.2f}"))
    return out


def bench_mixed(bench):
    """Contractions of bf16 beside those of f32, and beside autocast."""
    has_amx = " amx_bf16" in pathlib.Path("/proc/cpuinfo").read_text()
    out = ["### A step in mixed precision", "",
           "The steps above on one device with `precision(params: f32, compute: bf16)`, "
           "beside the same in f32 and beside PyTorch under bf16 autocast, one thread; "
           "milliseconds. This processor has " + ("AMX." if has_amx else
           "no AMX: Cleave widens bf16 to f32 before it multiplies."), "",
           row("size", "Cleave, f32", "mixed", "PyTorch, autocast", "mixed / f32",
               "mixed / PyTorch"), row(*["---"] * 6)]
    for name in bench.options.sizes.split(","):
        sizes = SIZES[name]
        plans = [bench.build(sizes, "bench(1, 1)", compute)[0]
                 for compute in ("f32", "bf16")]
        times = [[], [], []]
        for _ in range(bench.options.rounds):
            for plan, ours in zip(plans, times):
                ours.append(steady(bench.cleave_steps(plan, 10, 1)))
            times[2].append(steady(bench.torch(sizes, 1, "--bf16")["seconds"]))
            print(f"{name}: " + ", ".join(f"{values[-1] * 1e3:.0f} ms"
                                          for values in times), flush=True)
        mixed = times[1]
        ratios = [spread([a / b for a, b in zip(mixed, other)], digits=2)
                  for other in (times[0], times[2])]
        out.append(row(name, *(spread(values, 1e3) for values in times), *ratios))
    return out


def bench_pipeline(bench):
    """The same model in stages and without, on the same cores."""
    out = ["### A step in a pipeline", "",
           "The step above on 2 and on 4 devices, in stages with 1F1B, beside the same "
           "without stages; milliseconds. A core for each device, where there are as "
           f"many: here {os.cpu_count()}.", "",
           row("plan", "step", "beside one device", "beside data, as many devices"),
           row("---", "---", "---", "---")]
    cases = [("one device", "bench(1, 1)", 1), ("data 2", "bench(2, 1)", 2),
             ("pipe 2, 2 microbatches", "piped(2, 2)", 2),
             ("pipe 2, 4 microbatches", "piped(2, 4)", 2),
             ("data 4", "bench(4, 1)", 4),
             ("pipe 4, 4 microbatches", "piped(4, 4)", 4)]
    plans = [bench.build(STEP, plan)[0] for _, plan, _ in cases]
    times = [[] for _ in cases]
    for _ in range(bench.options.rounds):
        for (name, _, devices), plan, ours in zip(cases, plans, times):
            cores = min(devices, os.cpu_count())
            ours.append(steady(bench.cleave_steps(plan, 12, cores)))
            print(f"{name}: {ours[-1] * 1e3:.0f} ms", flush=True)
    flat = {devices: times[at] for at, (_, plan, devices) in enumerate(cases)
            if plan.startswith("bench")}
    for (name, _, devices), ours in zip(cases, times):
        beside = [spread([a / b for a, b in zip(ours, base)], digits=2)
                  for base in (flat[1], flat[devices])]
        out.append(row(name, spread(ours, 1e3), *beside))
    return out


ORDERED_SOURCE = '''
use std.optim, std.parallel, std.schedules, "{example}"

plan flat(replicas: int = 1, parts: int = 1, micros: int = 1) of gpt {{
  mesh [data: replicas, tensor: parts]
  shard batch           on data
  shard head, ff, vocab on tensor
  micro batch into micros
}}
plan staged(replicas: int = 1, parts: int = 1, micros: int = 4) of gpt {{
  mesh [pipe: 2, data: replicas, tensor: parts]
  shard batch           on data
  shard head, ff, vocab on tensor
  micro batch into micros
  pipeline layer on pipe with one_f_one_b
}}

run bench of gpt with adamw(rate: warmup(2e-3, 50), decay: 0.1), clip(1.0){word} {{
  plans {pairs}
  start one
}}
'''
ORDERED = {"one": ("one device", "flat"), "micro4": ("4 microbatches", "flat(micros: 4)"),
           "data8": ("data 8", "flat(replicas: 8)"),
           "tensor2": ("tensor 2", "flat(parts: 2)"),
           "pipe2": ("pipe 2, 4 microbatches", "staged"),
           "both": ("tensor 2 × pipe 2 × data 2, 2 microbatches",
                    "staged(replicas: 2, parts: 2, micros: 2)")}


def bench_reproducible(bench):
    """What it costs that every plan gives the same bits."""
    sizes = dict(SIZES["small"])
    defines = [word for name, value in sizes.items() for word in ("-D", f"{name}={value}")]
    plans, facts = {}, {}
    for kind, word in (("ordinary", ""), ("reproducible", " reproducible")):
        source = bench.work / f"{kind}.clv"
        source.write_text(ORDERED_SOURCE.format(
            example=ROOT / "examples/gpt/gpt.clv", word=word,
            pairs=", ".join(f"{name} = {call}" for name, (_, call) in ORDERED.items())))
        plans[kind] = source.with_suffix(".plan")
        capture([bench.options.cleave, "build", source, "--run", "bench", "-o",
                 plans[kind], *defines])
        told = json.loads(capture([bench.options.cleave, "explain", source, "--run",
                                   "bench", "--json", *defines]))
        facts[kind] = {plan["plan"]: plan for plan in told}
    times = {(kind, name): [] for kind in plans for name in ORDERED}
    for _ in range(bench.options.rounds):
        for (kind, name), ours in times.items():
            ours.append(steady(bench.cleave_steps(plans[kind], 10, os.cpu_count(), name)))
    out = ["### Reproducible runs", "",
           "The small step in a `reproducible` run beside the same plan in an ordinary "
           "one: milliseconds, MiB that all devices send in a step, and MiB of the "
           f"busiest device at its peak. Devices share {os.cpu_count()} cores.", "",
           row("plan", "ordinary", "reproducible", "times as long", "sends", "instead of",
               "peak", "instead of"), row(*["---"] * 8)]
    for name, (title, _) in ORDERED.items():
        plain, ordered = times["ordinary", name], times["reproducible", name]
        sent, peak = ([f"{value(facts[kind][name]) / MEBI:.1f}"
                       for kind in ("reproducible", "ordinary")]
                      for value in (lambda plan: plan["programs"][0]["bytes_total"],
                                    lambda plan: max(s["peak"] for s in plan["stages"])))
        out.append(row(title, spread(plain, 1e3, 1), spread(ordered, 1e3, 1),
                       spread([a / b for a, b in zip(ordered, plain)], digits=2),
                       *sent, *peak))
    return out


HOP_SOURCE = '''
use std.optim, std.parallel, std.schedules, "{example}"

plan data2 of gpt {{
  mesh [data: 2]
  shard batch on data
}}
plan micro2 of gpt {{
  use data2
  micro batch into 2
}}
plan zero3 of gpt {{
  use data2
  use zero(stage: 3, across: data)
}}
plan tensor2 of gpt {{
  mesh [tensor: 2]
  shard head, ff, vocab on tensor
}}
plan pipe2 of gpt {{
  mesh [pipe: 2]
  micro batch into 2
  pipeline layer on pipe with one_f_one_b
}}

run hops of gpt with adamw(rate: 0.001) {{
  plans data2 = data2, micro2 = micro2, zero3 = zero3, tensor2 = tensor2, pipe2 = pipe2
  start data2
}}
'''
HOPS = [("tensor2", "pipe2"), ("tensor2", "zero3"), ("zero3", "pipe2"),
        ("data2", "zero3"), ("data2", "micro2")]
MEBI = 2 ** 20


# Milliseconds that each iteration over layers sleeps besides its work.
PAUSES = [30, 0]


def overlapped_hops(bench, plan):
    """Hops while a step runs: what of them is seen."""
    out = ["Hops that overlap with a step: visible is the time in which neither plan "
           "computes. Steps compute as they do, and iterations over layers sleep besides, "
           "so that copies find an idle core, or do not sleep.", "",
           row("hop", "sleep, ms", "plain, ms", "visible, ms", "visible / plain",
               "step, ms", "with the hop, ms"),
           row(*["---"] * 7)]
    for before, after in HOPS[:4]:
        for pause in PAUSES:
            got = json.loads(capture(
                [bench.options.cleave.parent / "hop-bench", plan, before, after,
                 bench.options.rounds, "overlapped", pause]))
            shares = [a / b for a, b in zip(got["visible"], got["plain"])]
            out.append(row(f"{before} → {after}", pause, spread(got["plain"], 1e3, 1),
                           spread(got["visible"], 1e3, 2), spread(shares, digits=2),
                           spread(got["step"], 1e3), spread(got["whole"], 1e3)))
    return out


def bench_hops(bench):
    """Hops of a large state beside what copies allow, and beside PyTorch."""
    sizes = SIZES["large"]
    source = bench.work / "hops.clv"
    source.write_text(HOP_SOURCE.format(example=ROOT / "examples/gpt/gpt.clv"))
    plan = source.with_suffix(".plan")
    capture([bench.options.cleave, "build", source, "-o", plan,
             *(word for name, value in sizes.items() for word in ("-D", f"{name}={value}"))])
    runs = {pair: json.loads(capture(
        [bench.options.cleave.parent / "hop-bench", plan, *pair,
         2 * bench.options.rounds + 1])) for pair in HOPS}
    state = runs[HOPS[0]]["state"]
    out = ["### Hops", "",
           f"Parameters and AdamW's leaves of the large model, {state / MEBI:.0f} MiB in "
           "all, from plan to plan on two devices. The bound is what this machine copies "
           "between memories that were touched before: the larger of the busiest device's "
           "bytes at the rate of one thread, and of all copied bytes at that of two. "
           "Copied is what moves between the devices and what only changes its place on "
           "one.", "",
           row("hop", "moved, MiB", "copied, MiB", "time, ms", "bound, ms", "time / bound"),
           row(*["---"] * 6)]
    for (before, after), got in runs.items():
        bounds = [max(got["busiest"] / one, got["copied"] / both)
                  for one, both in zip(got["one"], got["all"])]
        ratios = [time / bound for time, bound in zip(got["there"], bounds) if bound]
        out.append(row(f"{before} → {after}", round(got["bytes"] / MEBI),
                       round(got["copied"] / MEBI), spread(got["there"], 1e3, 2),
                       spread(bounds, 1e3, 1), spread(ratios, digits=2) if ratios else "—"))
    out += ["", *overlapped_hops(bench, plan)]
    peer = bench.torch_script("torch_reshard.py", sizes, 2, "--folder",
                              bench.options.scratch / "cleave-reshard",
                              "--rounds", bench.options.rounds)
    through = [a + b for a, b in zip(peer["save"], peer["load"])]
    ours = runs["tensor2", "pipe2"]["there"]
    out += ["", "The first of all these hops through PyTorch's distributed checkpoint, two processes "
            f"over gloo, saved to memory (`{bench.options.scratch}`) and loaded cut by "
            f"layers: {spread(through, 1e3)} ms, "
            f"{statistics.median(through) / statistics.median(ours):.0f} times as long."]
    return out


def bench_overhead(bench):
    """What the executor adds: pipelines that have next to nothing to compute."""
    out = ["### The executor's overhead", "",
           "A pipeline of nearly empty microbatches with 1F1B: an action is a forward "
           "or a whole backward with all its instructions (kernels, contractions and "
           "moves of nothing, loops, messages); nanoseconds, on the stage with most.",
           "",
           row("stages", "microbatches", "an action", "an instruction",
               "instructions an action"),
           row("---", "---", "---", "---", "---")]
    binary = bench.options.cleave.parent / "overhead"
    cases = [(stages, micros) for stages in (1, 2, 4) for micros in (64, 1024)]
    times = {case: [] for case in cases}
    counts = {}
    for _ in range(bench.options.rounds):
        for case in cases:
            got = json.loads(capture([binary, *case, 20],
                                     cores=min(case[0], os.cpu_count())))
            times[case].append(statistics.median(got["seconds"]))
            counts[case] = (got["actions"], got["instructions"])
    for (stages, micros), ours in times.items():
        actions, instructions = counts[stages, micros]
        out.append(row(stages, micros, spread(ours, 1e9 / actions),
                       spread(ours, 1e9 / instructions),
                       f"{instructions / actions:.1f}"))
    return out


# A model with next to nothing to compute, so that a step's time shows what stands
# between steps. The rules read every metric, some over long windows, and never fire.
WATCHED = '''
use std.optim
model little(size = 8, sequences = 2) {
  dim batch = sequences, pos = 4, row = size
  input ids: i32[batch, pos] from tokens(shift: 0)
  param w: f32[row] ~ normal(1.0)
  minimize mean(w * w) + 0.0 * mean(cast(ids, f32))
}
plan p of little { mesh [data: 1]; shard batch on data }
plan q of little { mesh [data: 1]; shard row on data }

run bare of little with adamw(rate: 1e-9), clip(1.0) { plans p = p; start p }
run watched of little with adamw(rate: 1e-9), clip(1.0) {
  plans p = p, q = q
  start p
  when mean(loss, 1000) > 1e9 and spread(loss, 1000) > 1e9 for 3 -> q
  when mean(step_time, 100) > 1e9 s or max(step_time, 100) > 1e9 s -> q
  when gradient_norm > 1e9 and mean(gradient_norm, 50) > 1e9 -> stop
  when free_memory < 1 B -> stop
  when wall_time > 1e9 s or samples < 0 * step -> stop
  when spread(stage_time) > 1e9 for 20 -> q
  when bytes(all_reduce on data) > 1 TiB or mean(time(all_reduce), 100) > 1e9 s -> q
}
'''


def bench_rules(bench):
    """What rules, lines of metrics and Prometheus's file take from a step."""
    source = bench.work / "watched.clv"
    source.write_text(WATCHED)
    plans = {}
    for name in ("bare", "watched"):
        plans[name] = bench.work / f"{name}.plan"
        capture([bench.options.cleave, "build", source, "--run", name, "-o",
                 plans[name]])
    out = ["### Rules and metrics", "",
           "What a step is longer by when something looks at it: microseconds, from "
           "runs of a model with next to nothing to compute that differ in this alone; "
           "and what that is of the step above on one device, measured in between. "
           "Seven rules with nine statistics over up to 1,000 steps, one of which reads "
           "the machine's free memory.", "",
           row("", "a step, µs", "more, µs", "of a step"),
           row("---", "---", "---", "---")]
    cases = {"nothing": ("bare", ()), "lines of metrics": ("bare", ("--metrics",)),
             "metrics and Prometheus": ("bare", ("--metrics", "--prometheus")),
             "metrics, Prometheus and rules":
                 ("watched", ("--metrics", "--prometheus"))}
    steps, times, real = 20_000, {name: [] for name in cases}, []
    plan, _ = bench.build(STEP, "bench(1, 1)")
    for _ in range(bench.options.rounds):
        for name, (which, files) in cases.items():
            more = [word for file in files for word in (file, bench.work / file[2:])]
            seconds = {}
            for count in (0, steps):
                start = time.perf_counter()
                capture([bench.options.cleave, "run", plans[which], "--data",
                         bench.options.text, "--steps", count, "--quiet", *more],
                        cores=1)
                seconds[count] = time.perf_counter() - start
            times[name].append((seconds[steps] - seconds[0]) / steps)
        real.append(steady(bench.cleave_steps(plan, 6, 1)))
    for name, ours in times.items():
        more = [a - b for a, b in zip(ours, times["nothing"])]
        shares = [a / b for a, b in zip(more, real)]
        out.append(row(name, spread(ours, 1e6, 1),
                       "—" if name == "nothing" else spread(more, 1e6, 1),
                       "—" if name == "nothing" else
                       f"{statistics.median(shares):.4%}"))
    return out


LARGE = 2 ** 20  # bytes: from there on copies are the bound


def bench_collectives(bench):
    """Collectives between threads, in the columns of nccl-tests."""
    binary = bench.options.cleave.parent / "collectives"
    cores = os.cpu_count()
    out = ["### Collectives", "",
           "Between threads, f32, in the columns of nccl-tests: out of place, microseconds "
           "and GB/s. In turns with each, what memory copies allow: every device copies from "
           "the next one's memory half of the bytes that the collective reads and writes on "
           "it; the last column is the share of that rate. With more devices than cores "
           f"(here {cores}) threads block instead of spinning."]
    for devices, largest in ((2, 8 ** 9 // 2), (4, 2 ** 24), (8, 2 ** 24)):
        text = capture([binary, devices, largest, 2 * bench.options.rounds + 1],
                       cores=min(devices, cores))
        out += ["", f"{devices} devices" + ("" if devices <= cores else
                                            ", more than there are cores") + ":", "",
                row("kind", "size, B", "count", "type", "redop", "time, µs", "algbw", "busbw",
                    "wrong", "of copies"), row(*["---"] * 10)]
        for line in text.splitlines():
            got = json.loads(line)
            size = got["bytes"]
            if devices > cores and size not in (8, 32768, 2 ** 21):
                continue
            algbw = size / statistics.median(got["seconds"]) / 1e9
            shares = [b / a for a, b in zip(got["seconds"], got["copies"])]
            out.append(row(got["kind"], size, size // 4, "float", got["redop"],
                           spread(got["seconds"], 1e6, 1), f"{algbw:.2f}",
                           f"{algbw * got['bus']:.2f}", got["wrong"],
                           spread(shares, digits=2) if size >= LARGE else "—"))
    return out


def bench_exposed(bench):
    """What collectives add to a step."""
    binary = bench.options.cleave.parent / "exposed"
    out = ["### What collectives add to a step", "",
           "The step above on two devices, beside one whose collectives move nothing and wait "
           "for nobody, in turns; milliseconds. The last column is what all threads together "
           "computed and copied longer: without what they waited for each other.", "",
           row("plan", "step", "without collectives", "longer by", "more work by"),
           row(*["---"] * 5)]
    for name, plan in (("data 2", "bench(2, 1)"), ("tensor 2", "bench(1, 2)")):
        file, _ = bench.build(STEP, plan)
        got = json.loads(capture([binary, file, "p", 4 * bench.options.rounds], cores=2))
        more = [statistics.median(got[which + "with"])
                / statistics.median(got[which + "without"]) - 1
                for which in ("", "processor_")]
        out.append(row(name, spread(got["with"], 1e3), spread(got["without"], 1e3),
                       *(f"{100 * ratio:.1f}%" for ratio in more)))
    return out


def bench_where(bench):
    """Shares of a step's time, from a trace: kernels by the region they work in."""
    plan, _ = bench.build(STEP, "bench(1, 1)")
    trace = plan.with_suffix(".trace")
    capture([bench.options.cleave, "run", plan, "--data", bench.options.text,
             "--steps", 6, "--quiet", "--trace", trace], cores=1)
    events = json.loads(trace.read_text())["traceEvents"]
    events = [event for event in events if event.get("ph") == "X"]
    # Without the first two steps, and without what scores held-out text.
    train = [event for event in events
             if event["cat"] == "step" and event["name"] == "train"][2:]
    whole = sum(event["dur"] for event in train)
    events = [event for event in events
              if any(step["ts"] <= event["ts"] < step["ts"] + step["dur"]
                     for step in train)]
    shares = {}
    for event in events:
        if event["cat"] != "step":
            shares[event["cat"]] = shares.get(event["cat"], 0) + event["dur"]
    kernels = {}
    for event in events:
        if event["cat"] == "kernel":
            key = event["args"].get("path", "") or "elsewhere"
            kernels[key] = kernels.get(key, 0) + event["dur"]
    out = ["### Where a step's time goes", "",
           "The step above on one device, from its trace.", "",
           row("part", "share"), row("---", "---")]
    for part, time in sorted(shares.items(), key=lambda pair: -pair[1]):
        if time >= whole * 0.005:
            out.append(row(PARTS.get(part, part), f"{100 * time / whole:.0f}%"))
    out += ["", "Kernels by the region they work in, the largest:", "",
            row("region", "share"), row("---", "---")]
    for path, time in sorted(kernels.items(), key=lambda pair: -pair[1])[:8]:
        out.append(row(f"`{path}`", f"{100 * time / whole:.1f}%"))
    return out


PARTS = {"contraction": "contractions (oneDNN)", "kernel": "compiled kernels",
         "fill": "setting to zero", "move": "moving"}


# Meshes, and whether JAX is asked too.
BUILDS = [(8, True), (64, True), (512, True), (4096, False)]


def bench_build(bench):
    out = ["### Building a 32-layer step", "",
           "32 layers × 512, AdamW and clipping, tensor 8, the rest of the devices "
           "by data; seconds. Cleave: the whole `cleave build`, native code and plan "
           "file included, without kernels of earlier builds. JAX: lower and compile "
           "alone, layers scanned.", "",
           row("devices", "Cleave", "JAX, scanned", "Cleave / JAX", "plan file"),
           row("---", "---", "---", "---", "---")]
    results = {count: ([], [], 0) for count, _ in BUILDS}
    more = {what: [] for what in MORE_BUILDS}
    for _ in range(bench.options.rounds):
        for count, with_jax in BUILDS:
            ours, theirs, _ = results[count]
            plan, seconds = bench.build(DEEP, f"bench({count // 8}, 8)")
            ours.append(seconds)
            if with_jax:
                theirs.append(bench.jax("build", DEEP, None, data=count // 8,
                                        tensor=8)["seconds"])
            results[count] = (ours, theirs, plan.stat().st_size)
            print(f"{count} devices: {ours[-1]:.2f} s beside "
                  f"{theirs[-1] if theirs else 0:.2f} s", flush=True)
        for what, measure in MORE_BUILDS.items():
            more[what].append(measure(bench))
            print(f"{what}: {more[what][-1]:.3f} s", flush=True)
    for count, (ours, theirs, size) in results.items():
        ratios = [a / b for a, b in zip(ours, theirs)]
        out.append(row(count, spread(ours, digits=2),
                       spread(theirs, digits=2) if theirs else "not asked",
                       spread(ratios, digits=2) if theirs else "—",
                       f"{size / 1024:.0f} KiB"))
    scanned = results[8][1]
    out += ["", "Beside that, with 8 devices where nothing else is said:", "",
            row("what", "seconds", "/ JAX, scanned"), row("---", "---", "---")]
    for what, ours in more.items():
        out.append(row(what, spread(ours, digits=3),
                       spread([a / b for a, b in zip(ours, scanned)], digits=3)))
    return out


SET_SOURCE = '''
use std.optim, std.parallel, "{example}"

plan whole(replicas: int, parts: int) of gpt {{
  mesh [data: replicas, tensor: parts]
  shard batch           on data
  shard head, ff, vocab on tensor
}}
plan zero(level: int) of gpt {{
  mesh [data: 8]
  shard batch on data
  use zero(stage: level, across: data)
}}
run many of gpt with adamw(rate: 2e-3, decay: 0.1), clip(1.0) {{
  plans a = whole(1, 8){others}
  start a
}}
'''
OTHERS = ["whole(8, 1)", "whole(4, 2)", "whole(2, 4)", "zero(1)", "zero(2)", "zero(3)"]


def build_set(bench, plans, command="build", cache="off"):
    """Seconds of the process for a set of so many plans."""
    source = bench.work / f"set{plans}.clv"
    source.write_text(SET_SOURCE.format(
        example=ROOT / "examples/gpt/gpt.clv",
        others="".join(f", {chr(ord('b') + i)} = {OTHERS[i]}" for i in range(plans - 1))))
    defines = [word for name, value in DEEP.items() for word in ("-D", f"{name}={value}")]
    more = ["-o", source.with_suffix(".plan"), "--kernel-cache", cache] \
        if command == "build" else []
    start = time.perf_counter()
    capture([bench.options.cleave, command, source, *more, *defines])
    return time.perf_counter() - start


def further_plan(bench, cache):
    """Seconds that one more plan of a set costs."""
    one, all = (build_set(bench, plans, cache=cache) for plans in (1, 1 + len(OTHERS)))
    return (all - one) / len(OTHERS)


def cached_build(bench):
    folder = bench.work / "kernels"
    build_set(bench, 1, cache=folder)
    return build_set(bench, 1, cache=folder)


def layers_build(bench):
    _, seconds = bench.build({**DEEP, "layers": 96}, "bench(1, 8)")
    return seconds


def distinct_source(blocks):
    """A model whose layers all differ in width, and a number of plans for it."""
    dims = ", ".join(f"h{i} = {64 + 8 * i}" for i in range(blocks))
    layers = "\n".join(
        f"  region layer{i} {{\n"
        f"    param up{i}: f32[embed, h{i}] ~ normal(0.02)\n"
        f"    param down{i}: f32[h{i}, embed] ~ normal(0.02)\n"
        f"    x = x + dot(gelu(dot(nn.norm(x) as norm{i}, up{i}, over: embed)), "
        f"down{i}, over: h{i})\n  }}" for i in range(blocks))
    split = ", ".join(f"h{i}" for i in range(blocks))
    plans = "\n".join(
        f"plan p{k} of distinct {{\n  mesh [data: 2, tensor: 4]\n  shard batch on data\n"
        f"  shard {split} on tensor\n}}" for k in range(DISTINCT_PLANS))
    return f'''use std.nn, std.optim
model distinct() {{
  dim batch = 16, seq = 64, embed = 128, vocab = 256, {dims}
  input ids:    i32[batch, seq] from tokens(shift: 0)
  input labels: i32[batch, seq] from tokens(shift: 1)
  param table: f32[vocab, embed] ~ normal(0.02)
  var x = lookup(table, vocab: ids)
{layers}
  let loss = mean(nn.cross_entropy(dot(x, table, over: embed), labels, over: vocab))
  minimize loss
}}
{plans}
'''


DISTINCT_PLANS = 5
DISTINCT_BLOCKS = 24  # of some 85 operations each, backward and update included


def distinct_operations(bench):
    """Seconds for layouts and partitioning of one plan of some 2,000 operations."""
    source = bench.work / "distinct.clv"
    source.write_text(distinct_source(DISTINCT_BLOCKS))
    times = []
    for plan in (["--plan", "p0"], []):
        start = time.perf_counter()
        capture([bench.options.cleave, "check", source, *plan])
        times.append(time.perf_counter() - start)
    return (times[1] - times[0]) / (DISTINCT_PLANS - 1)


MORE_BUILDS = {
    "96 layers": layers_build,
    "one plan again, kernels from the cache": cached_build,
    "each further plan of a set": lambda bench: further_plan(bench, "off"),
    "each further plan, kernels from the cache":
        lambda bench: further_plan(bench, bench.work / "kernels"),
    "layouts and partitioning of 2,000 operations that differ": distinct_operations}


def machine(bench):
    model = "unknown"
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    peers = [("JAX", "jax", bench.python), ("PyTorch", "torch", bench.torch_python)]
    versions = ", ".join(
        f"{name} " + capture([python, "-c",
                              f"import {module} as m; print(m.__version__)"]).strip()
        for name, module, python in peers if python)
    return (f"Measured by `scripts/bench` on {time.strftime('%Y-%m-%d')}: "
            f"{os.cpu_count()} cores of {model}, {platform.system()} "
            f"{platform.machine()}, {versions}, {bench.options.rounds} rounds.")


def write(file, part, lines):
    """Replaces the part of the file between its two marks."""
    text = file.read_text()
    pattern = re.compile(rf"(<!-- {part} -->\n).*?(<!-- /{part} -->)", re.S)
    if not pattern.search(text):
        sys.exit(f"error: {file} has no part `{part}`")
    file.write_text(pattern.sub(
        lambda m: m[1] + "\n".join(lines) + "\n" + m[2], text))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cleave", type=pathlib.Path, required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--text", type=pathlib.Path, required=True)
    parser.add_argument("--only", choices=["step", "memory", "mixed", "pipeline",
                                           "reproducible", "overhead", "rules", "collectives", "exposed",
                                           "hops", "where", "build"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sizes", default=",".join(SIZES),
                        help="of the steps; default: all of " + ",".join(SIZES))
    parser.add_argument("--scratch", type=pathlib.Path, default=pathlib.Path("/dev/shm"),
                        help="where a peer's checkpoints go: memory")
    parser.add_argument("--write", type=pathlib.Path)
    options = parser.parse_args()
    bench = Bench(options, environment.ensure(options.work.parent / "peers"))
    for part, function in (("step", bench_step), ("memory", bench_memory),
                           ("mixed", bench_mixed),
                           ("pipeline", bench_pipeline),
                           ("reproducible", bench_reproducible),
                           ("overhead", bench_overhead), ("rules", bench_rules),
                           ("collectives", bench_collectives),
                           ("exposed", bench_exposed), ("hops", bench_hops),
                           ("where", bench_where), ("build", bench_build)):
        if options.only in (None, part):
            lines = function(bench) + ["", machine(bench)]
            print("\n" + "\n".join(lines) + "\n")
            if options.write:
                write(options.write, part, lines)


if __name__ == "__main__":
    main()
