"""`jtrans`, and `python -m jtrans`."""

from __future__ import annotations

import signal


def main() -> None:
    """Run the command line; during its import, Ctrl-C ends the process without a traceback."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # until `run` installs its own handler
    from jtrans.cli.main import main as run

    run()


if __name__ == "__main__":
    main()
