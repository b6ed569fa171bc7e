# hopped.py METRICS STEP:FROM>TO...: exactly these hops are in the file of metrics.
import json
import sys

events = [json.loads(line) for line in open(sys.argv[1])]
hops = [e for e in events if e.get("event") == "hop"]
found = ["%d:%s>%s" % (e["step"], e["from"], e["to"]) for e in hops]
assert found == sys.argv[2:], found
for hop in hops:
    assert hop["reason"] and hop["seconds"] >= 0 and hop["bytes"] >= 0, hop
    assert hop["bytes"] + hop["kept_bytes"] > 0, hop
