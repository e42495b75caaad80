"""What is generated for the documents: tables of measurements and a drawing."""
