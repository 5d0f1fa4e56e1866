"""Policies of trees: forest and xgboost fitted to the dataset, their boundary, and their ONNX
graph.
"""
