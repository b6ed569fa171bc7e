# leaves.py FILE: the names of a checkpoint's arrays. leaves.py FILE PREFIX OTHER...:
# those that begin so have the same bits in all files, and are not all zero.
import json
import sys


def read(path):
    data = open(path, "rb").read()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + length])
    header.pop("__metadata__")
    return {name: data[8 + length + entry["data_offsets"][0]:
                       8 + length + entry["data_offsets"][1]]
            for name, entry in header.items()}


first = read(sys.argv[1])
if len(sys.argv) == 2:
    print(*sorted(first), sep="\n")
    sys.exit()
names = [name for name in first if name.startswith(sys.argv[2])]
assert names and all(any(first[name]) for name in names), names
for path in sys.argv[3:]:
    other = read(path)
    for name in names:
        assert first[name] == other[name], (path, name)
print(len(names), "arrays have the same bits")
