"""Policies that are trees: random forest and xgboost, their forecast, and their ONNX graph."""
