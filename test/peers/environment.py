"""A Python environment with a peer, made in the build folder from PyPI.

Used by the comparison test and by the benchmarks:
    python = environment.ensure(pathlib.Path("build/peers"))           # JAX
    python = environment.ensure(pathlib.Path("build/peers"), "torch")  # PyTorch, 5 GB

Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import hashlib
import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent


class Unreachable(Exception):
    """The packages could not be fetched."""


def ensure(folder, peer="jax", quiet=True):
    """The interpreter of an environment that has requirements/PEER.txt, made if
    it is missing or was made from other requirements. Two that run at once do not
    disturb each other: one waits for the other."""
    requirements = HERE / "requirements" / f"{peer}.txt"
    key = hashlib.sha256(
        requirements.read_bytes() + sys.version.encode()).hexdigest()[:12]
    folder = pathlib.Path(folder).resolve()
    home = folder / f"venv-{key}"
    python = home / "bin" / "python"
    done = home / ".complete"
    if done.exists():
        return python
    folder.mkdir(parents=True, exist_ok=True)
    lock = folder / "venv.lock"
    import fcntl
    with open(lock, "w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        if done.exists():
            return python
        shutil.rmtree(home, ignore_errors=True)
        print(f"installing {requirements.name} from PyPI into {home}",
              flush=True)
        subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
        command = [str(python), "-m", "pip", "install",
                   "--disable-pip-version-check", "--retries", "2",
                   "--timeout", "20", "-r", str(requirements)]
        got = subprocess.run(command, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True)
        if got.returncode != 0:
            shutil.rmtree(home, ignore_errors=True)
            raise Unreachable(got.stdout[-2000:])
        if not quiet:
            print(got.stdout)
        done.write_text(key)
    return python


def required():
    """Whether a missing peer is a failure: in continuous integration."""
    return bool(os.environ.get("CLEAVE_REQUIRE_PEERS") or os.environ.get("CI"))
