r"""Compare all systems of the zoo.

    python -m scripts.bench.systems speed                         # beside the Transformer, in turns
    python -m scripts.bench.systems learn                         # multi30k-de-en, ten minutes each
    python -m scripts.bench.systems learn --only dlcl rnmt-plus   # measures these again
    python -m scripts.bench.systems learn --corpus grammar        # the built-in corpus

Suites:
    speed    training and decoding at the size of IWSLT14 (suite_speed.py)
    learn    train every recipe of a corpus for the same time with one thread, then score its
             translations (suite_learn.py); each row is written when it is measured
"""

from __future__ import annotations

import argparse

from scripts.bench import suite_learn, suite_speed


def main() -> None:
    """Measure, print, and write the results."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    suites = parser.add_subparsers(required=True, metavar="SUITE")
    learn = suites.add_parser("learn", help="train and score every recipe of a corpus")
    suite_learn.add_options(learn)
    learn.set_defaults(run=suite_learn.learn_suite)
    speed = suites.add_parser("speed", help="rates of training and decoding of every system")
    suite_speed.add_options(speed)
    speed.set_defaults(run=suite_speed.speed_suite)
    chosen = parser.parse_args()
    chosen.run(chosen)


if __name__ == "__main__":
    main()
