# Says what a run's metrics, trace and checkpoint hold.
import json
import struct
import sys

metrics, trace, checkpoint = sys.argv[1:]

lines = [json.loads(line) for line in open(metrics)]
steps = [line["step"] for line in lines]
assert steps == list(range(steps[0], steps[0] + len(steps)))
plans = sorted({line["plan"] for line in lines})
print(f"{len(lines)} steps, {steps[0]} to {steps[-1]}, of plan {', '.join(plans)}")
print("loss falls:", lines[-1]["loss"] < lines[0]["loss"])
print("held out at", [line["step"] for line in lines if "held_out" in line])
assert all(line["gradient_norm"] > 0 for line in lines)

data = json.load(open(trace))
events = data["traceEvents"] if isinstance(data, dict) else data
rows = {event["tid"] for event in events if event["ph"] == "X"}
names = {event["name"] for event in events if event["ph"] == "X"}
reductions = sorted(name for name in names if "all_reduce" in name)
print(f"{len(rows)} devices in the trace, with", reductions[0])

with open(checkpoint, "rb") as file:
    header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
for name in sorted(header, reverse=True):
    if name != "__metadata__":
        print(name, header[name]["dtype"], header[name]["shape"])
