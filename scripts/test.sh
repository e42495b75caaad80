#!/usr/bin/env bash
# Run all checks: format, lint, types, tests. Arguments go to pytest.
#
#   bash scripts/test.sh                 the default suite (minutes on two cores)
#   bash scripts/test.sh -m thorough     more cases, and tests that take seconds
#   bash scripts/test.sh -m slow         tests that take minutes
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/venv.sh" test
cd "$root"

run() {
    echo "+ $*"
    "$@"
}

unset PYTHONDONTWRITEBYTECODE # the processes that tests start need not compile the package again
export GOMP_SPINCOUNT=1000

# Tests write many small files and wait until each is on the disk: in memory there is no wait.
has_room_in_memory() {
    local file
    file=$(mktemp /dev/shm/jtrans.XXXXXX 2>/dev/null) || return 1
    printf '#!/bin/sh\n' >"$file"
    chmod +x "$file"
    "$file" 2>/dev/null || { rm -f "$file" && return 1; } # in most containers nothing may be executed
    rm -f "$file"
    [ "$(df --output=avail /dev/shm | tail -n 1)" -gt 2000000 ]
}
if has_room_in_memory; then export PYTEST_DEBUG_TEMPROOT=${PYTEST_DEBUG_TEMPROOT:-/dev/shm}; fi

run ruff check .
run ruff format --check --quiet .
run mypy # the package, scripts and tests
# worksteal: tests of a module, which share fixtures, run in one process until the other is idle
run python -m pytest -n 2 --dist worksteal "$@"
