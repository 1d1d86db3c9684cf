"""Is a run with smaller micro-batches the same training? Measured from outside, held against what autofit said. `make same-training`."""
