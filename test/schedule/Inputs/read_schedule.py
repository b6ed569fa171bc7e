"""Reads what `cleave schedule --json` prints and checks its sums.

Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import json
import sys

for schedule in json.load(sys.stdin):
    print(schedule["schedule"], schedule["placement"], schedule["stages"], "stages",
          schedule["micro"], "micro", schedule["chunks"], "chunks")
    print(f"makespan {schedule['makespan']:g} span {schedule['longest_span']:g} "
          f"bubble {schedule['bubble']:g}")
    for stage in schedule["by_stage"]:
        actions = stage["actions"]
        work = sum(action["finish"] - action["start"] for action in actions)
        assert abs(stage["span"] - stage["idle"] - work) < 1e-9
        assert stage["start"] == actions[0]["start"]
        assert stage["finish"] == actions[-1]["finish"]
        for before, after in zip(actions, actions[1:]):
            assert before["finish"] <= after["start"]
        print(f"stage {stage['stage']}: {len(actions)} actions, work {work:g}, "
              f"peak {stage['activation_peak']:g}")
