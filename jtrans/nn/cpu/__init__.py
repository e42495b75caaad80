"""Fast forms for a CPU, and its threads, memory allocator and matmul backend."""
