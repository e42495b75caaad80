"""The command line: parse, call one library function, show its result."""
