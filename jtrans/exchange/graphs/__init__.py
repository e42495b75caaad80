"""The model of a run as ONNX graphs: one for the start of a translation, one for each step."""
