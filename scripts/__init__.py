"""Development scripts: run `python -m scripts.FOLDER.NAME` in the root of the repository."""
