# Checks the shape of `cleave explain --json` and sums it up.
import json
import sys

for plan in json.load(sys.stdin):
    size = 1
    for axis in plan["mesh"]:
        size *= axis["size"]
    assert size == plan["devices"]
    assert set(plan["bytes"]) == {"params", "gradients", "optimizer"}
    assert [p["entry"] for p in plan["programs"]] == ["train", "eval", "forward"]
    for program in plan["programs"]:
        counts = {}
        for c in program["collectives"]:
            assert c["reason"] and c["operation"] and c["axis"], c
            assert c["phase"] == "update" or c["source"]["line"] > 0, c
            assert 0 < c["bytes_busiest"] <= c["bytes_total"], c
            counts[c["kind"]] = counts.get(c["kind"], 0) + c["count"]
        assert counts == (program["counts"] or {})
        for leaf in program["leaves"]:
            assert leaf["path"] and leaf["layout"] and leaf["bytes"] > 0, leaf
            elements = 4
            for extent in leaf["local"]:
                elements *= extent
            assert elements == leaf["bytes"]
    train = plan["programs"][0]["counts"] or {}
    text = ", ".join(f"{kind} {n}" for kind, n in sorted(train.items()))
    print(f"{plan['plan']} {plan['devices']} devices, train: {text or 'nothing'}")
