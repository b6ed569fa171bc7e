# agree.py TOLERANCE METRICS...: the losses and gradient norms of several runs, step
# by step, must agree with the first's.
import json
import sys


def read(path):
    lines = [json.loads(line) for line in open(path)]
    return [line for line in lines if "event" not in line]


tolerance = float(sys.argv[1])
first = read(sys.argv[2])
for path in sys.argv[3:]:
    other = read(path)
    assert [line["step"] for line in other] == [line["step"] for line in first], path
    for a, b in zip(first, other):
        assert a["samples"] == b["samples"], (path, a, b)
        for key in ("loss", "gradient_norm"):
            error = abs(a[key] - b[key]) / abs(a[key])
            assert error <= tolerance, (path, key, a, b)
