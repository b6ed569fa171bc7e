# exits.py CODE COMMAND...: runs a command and checks its exit code exactly (lit's
# `not` takes any failure for the wanted one).
import subprocess
import sys

code = subprocess.run(sys.argv[2:]).returncode
if code != int(sys.argv[1]):
    sys.exit(f"{' '.join(sys.argv[2:])}: exit code {code}, wanted {sys.argv[1]}")
