"""`jtrans`, and `python -m jtrans`."""

from __future__ import annotations

import signal


def main() -> None:
    """Run the command line; while that is being imported, Ctrl-C ends the process and no more."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # `run` takes it back
    from jtrans.cli.main import main as run

    run()


if __name__ == "__main__":
    main()
