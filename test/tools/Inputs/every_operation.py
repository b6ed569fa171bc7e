# Says which operations of the `clv` dialect programs on stdin lack.
# usage: every_operation.py Clv.td < programs
import re
import sys

with open(sys.argv[1]) as file:
    defined = re.findall(r'^def Clv_\w+Op : Clv_\w+<\s*"(\w+)"', file.read(), re.M)
assert len(defined) > 40, "the definitions are not found"
found = set(re.findall(r"(?:= |^ *)clv\.(\w+)", sys.stdin.read(), re.M))
print("lacking:", *sorted(set(defined) - found))
