"""Models prepared for the search: weights fused and converted once, caches written in place."""
