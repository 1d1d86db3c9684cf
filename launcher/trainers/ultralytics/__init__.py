"""YOLO: its adapter, and what Ultralytics would make of a model, a data set and its arguments; nothing here imports it."""
