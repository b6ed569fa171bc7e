# Wrong files for tests: data; altered, cut and later plan files; checkpoints.
import json
import struct
import subprocess
import sys


def write(name, data):
    with open(name, "wb") as file:
        file.write(data)


def make_data():
    write("short.txt", b"too short")
    write("empty.txt", b"")
    write("many.txt", "".join(chr(0x100 + i) for i in range(400)).encode() * 5)
    write("latin.txt", b"hello \xe9\n" * 50)
    write("large.i32", struct.pack("<400i", *(i % 300 for i in range(400))))
    write("negative.i32", struct.pack("<400i", 1, 2, 3, -1, *range(396)))
    write("odd.u16", b"abc" * 33)


def refuse(name, data, *texts):
    """Runs and inspects a damaged plan; both must say why in one line."""
    run = subprocess.run(
        ["cleave", "run", name, "--data", data, "--steps", "1"],
        capture_output=True,
        text=True,
    )
    lines = run.stderr.strip().split("\n")
    if run.returncode != 1 or run.stdout or len(lines) != 1:
        sys.exit(f"{name}: exit code {run.returncode}: {run.stdout}{run.stderr}")
    if not lines[0].startswith(f"error: cannot use `{name}`: "):
        sys.exit(f"{name}: {lines[0]}")
    if texts and not any(text in lines[0] for text in texts):
        sys.exit(f"{name}: {lines[0]}")
    return lines[0]


def damage_plan(plan, data):
    whole = open(plan, "rb").read()
    count = 60
    for i in range(count):
        # The frame's 64 bytes densely, then evenly to the end.
        at = i * 3 if i < 20 else (i - 20) * (len(whole) - 1) // (count - 21)
        altered = bytearray(whole)
        altered[at] ^= 1 << (i % 8)
        write("altered.plan", altered)
        refuse("altered.plan", data)
    print(count, "altered bytes refused")
    cuts = 20
    for i in range(cuts):
        write("cut.plan", whole[: i * (len(whole) - 1) // (cuts - 1)])
        refuse("cut.plan", data, "cut short", "not a plan file", "empty")
    print(cuts, "cuts refused")
    later = bytearray(whole)
    later[8:12] = struct.pack("<I", struct.unpack_from("<I", whole, 8)[0] + 1)
    write("later.plan", later)
    print("later version:", refuse("later.plan", data))


def split(path):
    whole = open(path, "rb").read()
    (size,) = struct.unpack_from("<Q", whole)
    return json.loads(whole[8 : 8 + size]), whole[8 + size :]


def join(name, header, body):
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    write(name, struct.pack("<Q", len(text)) + text + body)


def checkpoints(path):
    leaf = "params/layer/mlp/up"
    header, body = split(path)
    join("same.safetensors", header, body)

    begin, end = header[leaf]["data_offsets"]
    without = {}
    for name, entry in header.items():
        if name == leaf:
            continue
        if name != "__metadata__":
            entry = dict(entry)
            if entry["data_offsets"][0] >= end:
                entry["data_offsets"] = [
                    offset - (end - begin) for offset in entry["data_offsets"]
                ]
        without[name] = entry
    join("missing.safetensors", without, body[:begin] + body[end:])

    extra = dict(header)
    extra["params/layer/mlp/gate"] = {
        "dtype": "F32",
        "shape": [2],
        "data_offsets": [len(body), len(body) + 8],
    }
    join("extra.safetensors", extra, body + bytes(8))

    shape = json.loads(json.dumps(header))
    shape[leaf]["shape"] = shape[leaf]["shape"][::-1]
    join("shape.safetensors", shape, body)

    write("cut.safetensors", open(path, "rb").read()[:-5])


if sys.argv[1] == "data":
    make_data()
elif sys.argv[1] == "damage-plan":
    damage_plan(*sys.argv[2:])
elif sys.argv[1] == "checkpoints":
    checkpoints(sys.argv[2])
