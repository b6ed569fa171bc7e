# full_disk.py PLAN DATA: a run whose files may not get larger than a snapshot.
import json
import os
import resource
import subprocess
import sys

plan, data = sys.argv[1:]


def run(folder, limit):
    metrics = folder + ".jsonl"
    got = subprocess.run(
        ["cleave", "run", plan, "--data", data, "--steps", "3", "--quiet",
         "--snapshots", folder, "--snapshot-every", "2", "--metrics", metrics],
        capture_output=True, text=True,
        preexec_fn=lambda: limit and resource.setrlimit(resource.RLIMIT_FSIZE,
                                                        (limit, limit)))
    return got, json.loads(open(metrics).read().splitlines()[-1])["loss"]


whole, loss = run("large", 0)
assert whole.returncode == 0 and not whole.stderr, whole
small, other = run("small", os.stat("large/step-0000000002.safetensors").st_size - 1)
print(f"exit {small.returncode}, final loss",
      "as without" if other == loss else "another")
print(small.stderr, end="")
print("left:", *sorted(os.listdir("small")))
