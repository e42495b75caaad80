"""What is analysed: runs and files compared on one split."""
