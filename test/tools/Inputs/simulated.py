# Says which rows a trace has, and what stands on those that were simulated.
import json
import sys

groups, rows, slices = {}, {}, {}
for event in json.load(open(sys.argv[1]))["traceEvents"]:
    if event["name"] == "process_name":
        groups[event["pid"]] = event["args"]["name"]
    elif event["name"] == "thread_name":
        rows.setdefault(event["pid"], []).append(event["args"]["name"])
    elif event["ph"] == "X":
        slices.setdefault((event["pid"], event["tid"]), []).append(event)
for group, name in groups.items():
    print(f"{name}: {', '.join(rows[group])}")
if 2 in groups:
    # Only work is simulated; each has a measured one of its name on its device.
    names = [{e["name"] for key, row in slices.items() if key[0] == group
              for e in row} for group in (1, 2)]
    assert names[1] <= names[0], names[1] - names[0]
    print("both:", ", ".join(sorted(names[1])))
    for row, name in enumerate(rows[2]):
        own = sorted(slices[2, row], key=lambda e: e["ts"])
        for a, b in zip(own, own[1:]):
            assert a["ts"] + a["dur"] <= b["ts"] + 2e-3, (a, b)
        step = len(names[1])
        print(f"{name}: {', '.join(e['name'] for e in own[:step])}")
        steps = len(own) // step
    print(steps, "steps")
