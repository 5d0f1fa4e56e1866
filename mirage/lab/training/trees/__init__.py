"""Policies that are trees: random forest and xgboost, their threshold for freeing, and their ONNX
graph."""
