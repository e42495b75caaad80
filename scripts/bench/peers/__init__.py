"""Other toolkits on the work of jtrans, for the benchmarks."""
