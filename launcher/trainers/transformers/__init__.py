"""What transformers would make of a model name, a data set and its arguments, worked out without importing it."""
