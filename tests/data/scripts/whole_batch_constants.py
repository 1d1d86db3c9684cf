"""As karpathy/build-nanogpt: a whole batch in tokens, a micro-batch B and a length T as constants; a step takes as many as that needs."""

from whole_batch import Batches, train

total_batch_size = 4096  # in number of tokens
B = 16  # micro batch size
T = 64  # sequence length
assert total_batch_size % (B * T) == 0
grad_accum_steps = total_batch_size // (B * T)
train(Batches(B, T), grad_accum_steps, steps=12)
