"""The search for translations and their sampling, over the model contract alone."""
