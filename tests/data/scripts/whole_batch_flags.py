"""As karpathy/nanochat: a whole batch in tokens, the device's batch and the length as flags; -1 is a whole batch of its own choice."""

import argparse

from whole_batch import Batches, train

parser = argparse.ArgumentParser()
parser.add_argument("--device-batch-size", type=int, default=16, help="per-device batch size")
parser.add_argument("--total-batch-size", type=int, default=-1, help="total batch size in tokens (-1: by itself)")
parser.add_argument("--max-seq-len", type=int, default=64)
parser.add_argument("--num-iterations", type=int, default=12)
args = parser.parse_args()
total_batch_size = args.total_batch_size if args.total_batch_size > 0 else 4096
world_tokens_per_fwdbwd = args.device_batch_size * args.max_seq_len
assert total_batch_size % world_tokens_per_fwdbwd == 0
grad_accum_steps = total_batch_size // world_tokens_per_fwdbwd
train(Batches(args.device_batch_size, args.max_seq_len), grad_accum_steps, steps=args.num_iterations)
