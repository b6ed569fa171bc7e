# live.py PLAN DATA: starts a run and talks to it.
import json
import os
import signal
import subprocess
import sys
import time

plan, data = sys.argv[1:3]
name = "live-%d" % os.getpid()
run = ["cleave", "run", plan, "--data", data, "--steps", "1000000", "--name", name]
metrics = "live.jsonl"
live = subprocess.Popen(run + ["--quiet", "--metrics", metrics])


def ask(label, *words):
    done = subprocess.run(["cleave", "hop", *words], capture_output=True, text=True)
    print("%s: %d %s" % (label, done.returncode, (done.stdout + done.stderr).strip()))
    return done.returncode


try:
    until = time.monotonic() + 60
    while not (os.path.exists(metrics) and os.path.getsize(metrics)):
        assert live.poll() is None and time.monotonic() < until
        time.sleep(0.02)
    ask("status", name, "--status")
    ask("hop", name, "deep")
    ask("again", name, "deep")
    ask("unknown", name, "nowhere")
    ask("micro", name, "micro(3)")
    twin = subprocess.run(run + ["--quiet"], capture_output=True, text=True)
    print("twin: %d %s" % (twin.returncode, twin.stderr.strip()))
    live.send_signal(signal.SIGINT)
    print("ended: %d" % live.wait(timeout=60))
finally:
    if live.poll() is None:
        live.kill()
events = [line for line in map(json.loads, open(metrics)) if "event" in line]
print("hops: " + " ".join("%s>%s %s" % (e["from"], e["to"], e["by"]) for e in events))
ask("gone", name, "--status")
ask("bare", name)
