"""autofit's text and speech trainers: their adapter, and what transformers would make of a model, data and arguments. Doesn't import it."""
