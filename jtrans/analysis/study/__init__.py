"""Studies: runs and files of translations compared on one split."""
