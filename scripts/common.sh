# What the scripts of this folder share. Sourced by bash, never run.
#
# Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

set -euo pipefail

self=$(realpath "$0")

# The repository's root, from which everything runs.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"

# Where things are built. Another folder: CLEAVE_BUILD=/tmp/b scripts/test
build=${CLEAVE_BUILD:-$root/build}
preset=${CLEAVE_PRESET:-default}
case $build in /*) ;; *) build=$root/$build ;; esac

if [ -t 1 ]; then
  bold=$'\e[1m'; dim=$'\e[2m'; red=$'\e[31m'; plain=$'\e[0m'
else
  bold=; dim=; red=; plain=
fi

say() { printf '%s==>%s %s\n' "$bold" "$plain" "$*"; }
note() { printf '%s    %s%s\n' "$dim" "$*" "$plain"; }
fail() { printf '%serror:%s %s\n' "$red" "$plain" "$1" >&2; shift
         for line in "$@"; do printf '       %s\n' "$line" >&2; done; exit 1; }

# Shows a command as a user would type it.
show() {
  local word line=
  for word in "$@"; do
    case $word in *[[:space:]]*) word="'$word'" ;; esac
    line+=" ${word//"$root/"/}"
  done
  printf '%s$%s%s\n' "$bold" "$line" "$plain"
}
# Shows it and runs it.
run() { show "$@"; "$@"; }

# The comment at the head of the running script, as its help.
usage() { sed -n '2,/^[^#]/{/^#/{s/^# \{0,1\}//;/^Part of Cleave/q;p}}' "$self"; }
