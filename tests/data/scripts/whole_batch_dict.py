"""A whole batch and a micro-batch as entries of a dict, and one batch a step as it stands."""

from whole_batch import Batches, train

config = {"total_batch_size": 64, "micro_batch_size": 64, "length": 16, "steps": 12}
accumulation_steps = max(1, int(config["total_batch_size"] / config["micro_batch_size"]))
train(Batches(config["micro_batch_size"], config["length"]), accumulation_steps, config["steps"])
