"""Compares each plan's arena, in `cleave explain --json` on standard input, with the
lower bound that lifetimes give; fails beyond the factor in the first argument."""
import json
import sys

limit = float(sys.argv[1])
worst, where = 0, ""
for plan in json.load(sys.stdin):
    for stage in plan["stages"]:
        assert 0 < stage["least_arena"] <= stage["arena"], (plan["plan"], stage)
        ratio = stage["arena"] / stage["least_arena"]
        if "-v" in sys.argv:
            print(plan["plan"], stage["arena"], stage["least_arena"], round(ratio, 3))
        if ratio > worst:
            worst, where = ratio, plan["plan"]
print(f"at most {worst:.3f} of the least, in {where}")
sys.exit(worst > limit)
