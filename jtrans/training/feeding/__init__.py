"""How the pairs of an update get to the device: in which parts, and when they are padded."""
