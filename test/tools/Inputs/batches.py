# batches.py METRICS TOKENS BATCH...: steps had these batches, and no window of tokens
# is there twice.
import json
import struct
import sys

lines = [json.loads(line) for line in open(sys.argv[1])]
samples = [line["samples"] for line in lines if "event" not in line]
batches = [b - a for a, b in zip([0] + samples, samples)]
assert batches == list(map(int, sys.argv[3:])), batches

length, inputs = 8, 2  # ids and labels of a step, one after the other
data = open(sys.argv[2], "rb").read()
tokens = struct.unpack("%di" % (len(data) // 4), data)
assert len(tokens) == sum(batches) * length * inputs
windows, at = [], 0
for batch in batches:
    for i in range(batch):
        windows.append(tokens[at + i * length : at + (i + 1) * length])
    at += batch * length * inputs
assert len(windows) == samples[-1]
assert len(set(windows)) > 0.9 * len(windows)  # the text repeats itself a little
