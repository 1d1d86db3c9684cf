"""What runs inside Ultralytics' process: its trial, its traces, its imports before the budget, its downloads."""
