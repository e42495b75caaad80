"""Getting the original files of a corpus: fetching, unpacking, finding them."""
