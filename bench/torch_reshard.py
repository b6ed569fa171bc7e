"""Times a change of layout through PyTorch's distributed checkpoint, on the CPU.

usage: torch_reshard.py --layers … --tokens N --folder FOLDER [--rounds N]

Two processes over gloo hold the parameters of the GPT of examples/gpt/gpt.clv and
AdamW's moments as DTensors, cut by columns (tensor 2), save them, and load them cut
by layers (pipe 2). Prints one JSON line: bytes of the state, seconds of saving and
of loading. Run by bench/run.py.

Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import argparse
import json
import os
import pathlib
import shutil
import socket
import time

parser = argparse.ArgumentParser()
for size in ("layers", "width", "heads", "length", "tokens", "sequences"):
    parser.add_argument(f"--{size}", type=int, required=True)
parser.add_argument("--folder", type=pathlib.Path, required=True)
parser.add_argument("--rounds", type=int, default=3)
options = parser.parse_args()
os.environ["OMP_NUM_THREADS"] = "1"

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.distributed.checkpoint as checkpoint  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.tensor import DTensor, Replicate, Shard  # noqa: E402

DEVICES = 2
L, W = options.layers, options.width
# Each with the dim that is cut by tensor, then by pipe; None: whole.
SHAPES = {"embedding/table": ((options.tokens, W), 0, None),
          "embedding/place": ((options.length, W), None, None),
          "layer/norm1/gain": ((L, W), None, 0), "layer/norm2/gain": ((L, W), None, 0),
          "layer/attention/wq": ((L, W, W), 2, 0),
          "layer/attention/wk": ((L, W, W), 2, 0),
          "layer/attention/wv": ((L, W, W), 2, 0),
          "layer/attention/wo": ((L, W, W), 1, 0),
          "layer/mlp/up": ((L, W, 4 * W), 2, 0),
          "layer/mlp/down": ((L, 4 * W, W), 1, 0), "output/gain": ((W,), None, None)}


def state(mesh, which, value):
    """All leaves under one of the two layouts, in touched memory."""
    result = {}
    for path, (shape, *dims) in SHAPES.items():
        dim = dims[which]
        local = list(shape)
        if dim is not None:
            local[dim] //= DEVICES
        for leaf in ("param", "first", "second"):
            result[f"{path}/{leaf}"] = DTensor.from_local(
                torch.full(local, value), mesh,
                [Replicate() if dim is None else Shard(dim)], run_check=False)
    return result


def run(rank, port):
    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=DEVICES)
    mesh = init_device_mesh("cpu", (DEVICES,))
    before, after = state(mesh, 0, 1.0), state(mesh, 1, 2.0)
    saving, loading = [], []
    for round_ in range(options.rounds):
        folder = options.folder / str(round_)
        dist.barrier()
        start = time.perf_counter()
        checkpoint.save(before, checkpoint_id=folder)
        dist.barrier()
        middle = time.perf_counter()
        checkpoint.load(after, checkpoint_id=folder)
        dist.barrier()
        saving.append(middle - start)
        loading.append(time.perf_counter() - middle)
        if rank == 0:
            shutil.rmtree(folder)
    for leaf in after.values():
        assert bool((leaf.to_local() == 1.0).all()), "the peer lost something"
    if rank == 0:
        elements = sum(torch.Size(shape).numel() for shape, *_ in SHAPES.values())
        print(json.dumps({"state": 3 * 4 * elements, "save": saving,
                          "load": loading, "torch": torch.__version__}), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    torch.multiprocessing.start_processes(run, (port,), DEVICES, start_method="fork")
