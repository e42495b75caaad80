"""Making a prepared corpus from parallel text."""
