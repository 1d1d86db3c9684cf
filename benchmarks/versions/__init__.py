"""What works with which versions of Ultralytics, transformers, Lightning, accelerate, torch and Python."""
