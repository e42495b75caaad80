# Sourced by the other scripts: makes .venv beside this checkout when there is none, installs
# jtrans into it under constraints.txt, and puts it first on PATH. Safe to run again.
#
# Usage: . scripts/venv.sh [EXTRA]

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
extra=${1:-}
python=${PYTHON:-python3}

if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    echo "error: jtrans needs Python 3.11 or newer, and '$python' is not (set PYTHON=...)" >&2
    exit 2
fi

# pip comes last: without the package python3-venv, Debian's Python leaves a .venv that has none
if [ ! -x "$root/.venv/bin/pip" ]; then
    echo "Making $root/.venv"
    "$python" -m venv "$root/.venv"
fi

# a checksum of the files that decide what is installed lets a second run start at once
wanted=$(cat "$root/pyproject.toml" "$root/constraints.txt" | cksum)-$extra
if [ "$(cat "$root/.venv/.jtrans-installed" 2>/dev/null)" != "$wanted" ]; then
    echo "Installing jtrans${extra:+[$extra]} and what it needs (a few minutes the first time)"
    "$root/.venv/bin/python" -m pip install --quiet --disable-pip-version-check \
        "$(grep '^torch==' "$root/constraints.txt")"
    "$root/.venv/bin/python" -m pip install --quiet --disable-pip-version-check \
        --constraint "$root/constraints.txt" --editable "$root${extra:+[$extra]}"
    echo "$wanted" >"$root/.venv/.jtrans-installed"
fi
PATH="$root/.venv/bin:$PATH"
