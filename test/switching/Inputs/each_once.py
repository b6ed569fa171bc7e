# each_once.py make FILE WINDOWS: a file of ids in which every window of 16 begins with
# its own number.
# each_once.py check DUMP BATCH: the ids of all steps; prints how many windows there are,
# and fails where one is there twice.
import struct
import sys

length, inputs = 16, 2  # ids and labels of a step, one after the other
if sys.argv[1] == "make":
    tokens = []
    for window in range(int(sys.argv[3]) + 1):
        tokens += [window % 90, window // 90] + [window * 7 % 90] * (length - 2)
    open(sys.argv[2], "wb").write(struct.pack("<%di" % len(tokens), *tokens))
    sys.exit()
batch = int(sys.argv[3])
data = open(sys.argv[2], "rb").read()
tokens = struct.unpack("<%di" % (len(data) // 4), data)
step = batch * length * inputs
assert len(tokens) % step == 0
numbers = []
for begin in range(0, len(tokens), step):
    for i in range(batch):
        at = begin + i * length
        numbers.append(tokens[at] + 90 * tokens[at + 1])
assert len(set(numbers)) == len(numbers), numbers
print(len(numbers), "windows, each once, up to", max(numbers))
