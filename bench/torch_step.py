"""Times steps of the GPT of examples/gpt/gpt.clv in PyTorch, on this machine's CPU.

usage: torch_step.py --layers … --sequences N --steps N [--data N] [--threads N]
                     [--compile] [--bf16]

One process for each device of `--data`, with a thread each; alone, `--threads`. The
model is written as PyTorch's users would: fused attention, fused AdamW, clipping by
norm, and DistributedDataParallel over gloo. Prints one JSON line: seconds of each
step, the first losses, the most memory that a process had, and what it had before
there was a model. Run by bench/run.py.

Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import argparse
import contextlib
import json
import os
import resource
import time

parser = argparse.ArgumentParser()
for size in ("layers", "width", "heads", "length", "tokens", "sequences"):
    parser.add_argument(f"--{size}", type=int, required=True)
parser.add_argument("--data", type=int, default=1)
parser.add_argument("--threads", type=int, default=1)
parser.add_argument("--steps", type=int, default=10)
parser.add_argument("--compile", action="store_true")
parser.add_argument("--bf16", action="store_true")
options = parser.parse_args()
os.environ["OMP_NUM_THREADS"] = str(options.threads)

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402


class Norm(nn.Module):
    """Layer norm without a shift."""

    def __init__(self, width):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return F.layer_norm(x, self.gain.shape, self.gain)


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = Norm(width), Norm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.up = nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(4 * width, width, bias=False)

    def forward(self, x):
        batch, length, width = x.shape
        split = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, -1)
        query, keys, values = split.permute(2, 0, 3, 1, 4).unbind(0)
        context = F.scaled_dot_product_attention(query, keys, values, is_causal=True)
        x = x + self.out(context.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        width = options.width
        self.table = nn.Embedding(options.tokens, width)
        self.place = nn.Parameter(torch.empty(options.length, width))
        self.layers = nn.ModuleList(
            Block(width, options.heads) for _ in range(options.layers))
        self.norm = Norm(width)
        for name, value in self.named_parameters():
            if not name.endswith("gain"):
                nn.init.normal_(value, std=0.02)

    def forward(self, ids, labels):
        x = self.table(ids) + self.place
        for layer in self.layers:
            x = layer(x)
        logits = F.linear(self.norm(x), self.table.weight)  # tied
        return F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten())


def memory():
    """The most bytes that this process has had so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def train(rank):
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    torch.mm(torch.ones(64, 64), torch.ones(64, 64))  # the library's own
    base = memory()
    model = Gpt()
    if options.compile:
        model = torch.compile(model)
    if options.data > 1:
        model = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, betas=(0.9, 0.95),
                                  weight_decay=0.1, fused=True)
    ids = torch.randint(0, options.tokens, (options.sequences, options.length))
    labels = ids.roll(-1, 1)
    ids, labels = (value.tensor_split(options.data)[rank] for value in (ids, labels))
    times, losses = [], []
    for _ in range(options.steps):
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        with (torch.autocast("cpu", torch.bfloat16) if options.bf16
              else contextlib.nullcontext()):
            loss = model(ids, labels)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        times.append(time.perf_counter() - start)
        losses.append(loss.item())
    if rank == 0:
        print(json.dumps({
            "seconds": times, "losses": losses[:3], "torch": torch.__version__,
            "peak": memory(), "base": base}), flush=True)


def train_one_of_several(rank, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=options.data)
    train(rank)
    dist.destroy_process_group()


def free_port():
    import socket
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


if __name__ == "__main__":
    if options.data == 1:
        train(0)
    else:
        torch.multiprocessing.start_processes(
            train_one_of_several, (free_port(),), options.data, start_method="fork")
