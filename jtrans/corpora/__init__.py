"""Where parallel text comes from: the catalogue, downloads and readers of file formats."""
