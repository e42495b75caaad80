"""Reproduce the tables and figures of Li et al. (2020), and make comparisons beyond them.

python -m scripts.reproduce table2 --task iwslt14-de-en --data DIR --out DIR [--budget MINUTES]

The code is in `scripts/reproduction`, the results in docs/reproduction.md.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

if __name__ == "__main__":
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # until the command has been imported
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # also as a plain script
    from scripts.reproduction.command import main

    main()
