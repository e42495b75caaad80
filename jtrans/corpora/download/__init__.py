"""Getting the original files of a corpus: downloading, unpacking and finding them."""
