"""Writes the kernels of a plan file, an ELF object, to a file of their own."""
import sys

data = open(sys.argv[1], "rb").read()
open(sys.argv[2], "wb").write(data[data.index(b"\x7fELF"):])
