# damage_snapshots.py PLAN DATA FOLDER: damages the newest snapshot in every way, and
# looks at what `cleave run --resume` says and goes on from.
import pathlib
import random
import re
import subprocess
import sys

plan, data, folder = sys.argv[1:]
newest = sorted(pathlib.Path(folder).glob("step-*"))[-1]
before = sorted(pathlib.Path(folder).glob("step-*"))[-2]
good = newest.read_bytes()


def resume():
    got = subprocess.run(["cleave", "run", plan, "--data", data, "--resume", folder,
                          "--steps", "1"], capture_output=True, text=True)
    assert got.returncode in (0, 1), got
    return got


def passed_over(damaged):
    newest.write_bytes(damaged)
    got = resume()
    assert got.returncode == 0, got
    assert "note: a newer snapshot is passed over: cannot load `" + str(newest) in got.stderr
    assert f"resumed from {before}" in got.stdout, got
    return got.stderr


header = int.from_bytes(good[:8], "little")
cuts = [0, 1, 7, 8, 9, 8 + header // 2, 8 + header - 1, 8 + header, 8 + header + 1,
        len(good) // 2, len(good) - 4, len(good) - 1]
for cut in cuts:
    passed_over(good[:cut])
print(len(cuts), "cuts passed over")
places = random.Random(1).sample(range(len(good)), 24)
for place in places:
    damaged = bytearray(good)
    damaged[place] ^= 1 << place % 8
    passed_over(bytes(damaged))
print(len(places), "altered bytes passed over")
later = re.sub(rb'"format":"1"', b'"format":"2"', good)
assert later != good
print("later version:", passed_over(later).strip())
kept = before.read_bytes()
for path in pathlib.Path(folder).glob("step-*"):
    path.write_bytes(b"nothing")
got = resume()
assert got.returncode == 1
print("all damaged:", got.stderr.splitlines()[-1].removeprefix("error: "))
newest.write_bytes(good)
before.write_bytes(kept)
