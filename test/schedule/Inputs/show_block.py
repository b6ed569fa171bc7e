"""Prints the block of a document that begins with a text.

usage: show_block.py DOCUMENT BEGINNING

Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import re
import sys

text = open(sys.argv[1], encoding="utf-8").read()
blocks = re.findall(r"^```[^\n]*\n(.*?)^```$", text, re.M | re.S)
print(next(block for block in blocks if block.startswith(sys.argv[2])), end="")
