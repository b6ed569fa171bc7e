# The transfers that `cleave explain --json` lists, a line each.
import json
import sys

for plan in json.load(sys.stdin):
    for hop in plan["transfers"]:
        assert hop["bytes_busiest"] == max(hop["bytes_sent"], hop["bytes_received"])
        assert hop["bytes_busiest"] <= hop["bytes_total"]
        slow = hop.get("bytes_slow", "unknown")
        seconds = hop.get("seconds", "unknown")
        print(f"{plan['plan']} to {hop['to']}: {hop['bytes_total']}, busiest "
              f"{hop['bytes_busiest']}, slow {slow}, staged {hop['staging']}, "
              f"copies {hop['both_copies']}, seconds {seconds}")
