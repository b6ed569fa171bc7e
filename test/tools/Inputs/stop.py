# stop.py SIGNAL PLAN DATA CHECKPOINT: sends the signal once a run has made steps,
# and checks that it saves after a whole step and exits as shells say.
import json
import os
import signal
import struct
import subprocess
import sys
import time

name, plan, data, checkpoint = sys.argv[1:]
metrics = checkpoint + ".jsonl"
run = subprocess.Popen(
    ["cleave", "run", plan, "--data", data, "--steps", "1000000000", "--quiet"]
    + ["--save", checkpoint, "--metrics", metrics],
    stdout=subprocess.PIPE,
    text=True,
)
deadline = time.time() + 60
while not os.path.exists(metrics) or os.path.getsize(metrics) < 500:
    assert run.poll() is None and time.time() < deadline
    time.sleep(0.01)
run.send_signal(getattr(signal, "SIG" + name))
output, _ = run.communicate(timeout=60)
assert run.returncode == 130, run.returncode
last = json.loads(open(metrics).readlines()[-1])["step"]
assert f"stopped on request after step {last}" in output, output
with open(checkpoint, "rb") as file:
    header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
assert str(last) in header["__metadata__"].values(), header["__metadata__"]
