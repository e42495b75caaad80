"""One command that checks jtrans on a GPU and measures it there: `check`."""
