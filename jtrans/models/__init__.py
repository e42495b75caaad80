"""One file per system, and the contract that all systems fulfil."""
