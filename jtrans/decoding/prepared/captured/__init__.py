"""Steps of prepared forms on buffers of fixed sizes, captured as CUDA graphs."""
