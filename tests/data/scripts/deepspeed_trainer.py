"""Several processes of transformers' Trainer, which hands DeepSpeed's configuration over (``--deepspeed ds.json``)."""

import os

import torch
from transformers import HfArgumentParser, LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 512

    def __getitem__(self, index):
        tokens = torch.randint(0, 100, (128,), generator=torch.Generator().manual_seed(index))
        return {"input_ids": tokens, "labels": tokens}


def take_cpus_for_cards():
    """Where there are no cards accelerate takes DeepSpeed's ranks for processes that know nothing of each other, and shares no data out."""
    import deepspeed
    from accelerate import DistributedType, PartialState

    deepspeed.init_distributed("gloo", auto_mpi_discovery=False)
    os.environ["ACCELERATE_TORCH_DEVICE"] = "cpu"
    PartialState(backend="gloo").distributed_type = DistributedType.DEEPSPEED


def main():
    take_cpus_for_cards()
    (args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
    torch.manual_seed(0)
    sizes = {"hidden_size": 128, "intermediate_size": 384, "num_hidden_layers": 4, "num_attention_heads": 4}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=100, **sizes))
    trainer = Trainer(model=model, args=args, train_dataset=Rows(), eval_dataset=torch.utils.data.Subset(Rows(), range(64)))
    trainer.train()
    print(f"{trainer.state.global_step} steps of {trainer.deepspeed.train_batch_size()} rows", flush=True)


if __name__ == "__main__":
    main()
