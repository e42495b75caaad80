"""What is run beside the package: `python -m scripts.FOLDER.NAME` in the root of the repository."""
