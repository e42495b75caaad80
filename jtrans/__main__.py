"""`python -m jtrans`."""

from jtrans.cli.main import main

main()
