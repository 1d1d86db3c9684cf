"""The adapter for Ultralytics YOLO, and readers of models, data sets and arguments by Ultralytics' own rules. Nothing here imports it."""
