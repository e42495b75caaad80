"""One file a system, and the contract that they all fulfil."""
