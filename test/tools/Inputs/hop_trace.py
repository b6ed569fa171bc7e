# The plans that a trace names, and its hops with the rows on which they stand.
import json
import sys

events = json.load(open(sys.argv[1]))["traceEvents"]
print(next(event["args"]["name"] for event in events
           if event["name"] == "process_name"))
hops = [event for event in events if event.get("cat") == "hop"]
for begin in sorted({event["ts"] for event in hops}):
    same = [event for event in hops if event["ts"] == begin]
    rows = sorted(event["tid"] for event in same)
    print(same[0]["name"], "on rows", *rows)
    # No device computes meanwhile.
    end = begin + same[0]["dur"]
    for event in events:
        if event.get("ph") == "X" and event not in same:
            assert event["ts"] >= end or event["ts"] + event["dur"] <= begin, event
