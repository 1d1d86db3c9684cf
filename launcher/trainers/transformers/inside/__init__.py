"""What runs inside transformers' process: its trial, and the fetching of a model from the hub."""
