"""Single-shot gradient-based scaling (docs/systems.md 4)."""
