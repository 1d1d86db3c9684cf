"""What runs inside transformers' process: its trial, its traces, and the fetching of a model from the hub."""
