"""Compares plans' arenas, in `cleave explain --json` on standard input, with the lower
bound that lifetimes give; fails beyond the factor in the first argument. With names of
plans only those."""
import json
import sys

limit, names = float(sys.argv[1]), sys.argv[2:]
worst, where = 0, ""
for plan in json.load(sys.stdin):
    if names and plan["plan"] not in names:
        continue
    for stage in plan["stages"]:
        assert 0 < stage["least_arena"] <= stage["arena"], (plan["plan"], stage)
        ratio = stage["arena"] / stage["least_arena"]
        if ratio > worst:
            worst, where = ratio, plan["plan"]
print(f"at most {worst:.3f} of the least, in {where}")
sys.exit(not 0 < worst <= limit)
