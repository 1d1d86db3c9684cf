"""What runs inside Ultralytics' process: its trial, its imports before the budget, its downloads."""
