"""As karpathy/autoresearch: the division stands in a line of its own, after the tokens of one pass."""

from whole_batch import Batches, train

TOTAL_BATCH_SIZE = 2**12
DEVICE_BATCH_SIZE = 16  # per-device batch size (reduce if OOM)
MAX_SEQ_LEN = 64

tokens_per_fwdbwd = DEVICE_BATCH_SIZE * MAX_SEQ_LEN
assert TOTAL_BATCH_SIZE % tokens_per_fwdbwd == 0
grad_accum_steps = TOTAL_BATCH_SIZE // tokens_per_fwdbwd
train(Batches(DEVICE_BATCH_SIZE, MAX_SEQ_LEN), grad_accum_steps, steps=12)
