# How the lit tests run: tools from the build folder, FileCheck from LLVM 19.
import os
import sys

import lit.formats

config.name = "cleave/" + config.folder
config.test_format = lit.formats.ShTest(execute_external=True)
config.suffixes = [".clv", ".mlir", ".test"]
config.excludes = ["Inputs", "unit"]
config.test_source_root = os.path.join(config.source_root, "test", config.folder)
config.environment["PATH"] = os.pathsep.join(
    [config.cleave_bin, "/usr/lib/llvm-19/bin", config.environment.get("PATH", "")]
)
config.environment["CLEAVE_SOURCE"] = config.source_root
# Tests share kernels with each other, and none with the user's builds.
config.environment["CLEAVE_KERNEL_CACHE"] = os.path.join(
    os.path.dirname(config.cleave_bin), "test", "kernel-cache"
)
config.substitutions.append(("%source", config.source_root))
config.substitutions.append(("%python", sys.executable))
