"""Generated parts of the documents: tables of measurements and a drawing."""
