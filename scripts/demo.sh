#!/usr/bin/env bash
# The whole job on a bare machine, no GPU: install, then `jtrans quickstart`.
# Arguments go to it: bash scripts/demo.sh --minutes 10
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/venv.sh" ""  # without an argument it would see those of this script
cd "$root"
jtrans quickstart "$@"
