"""Classifies sentences of very different lengths; batches are padded to their longest. Keeps what it predicted in validation."""

import argparse

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

VOCABULARY, LABELS = 4000, 12


class Sentences(Dataset):
    def __init__(self, rows, longest, seed):
        generator = torch.Generator().manual_seed(seed)
        lengths = (2 + torch.rand(rows, generator=generator) ** 4 * longest).long()
        self.rows = [torch.randint(1, VOCABULARY, (int(length),), generator=generator) for length in lengths]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return self.rows[index], int(self.rows[index].sum()) % LABELS


def collate(batch):
    tokens, labels = zip(*batch, strict=True)
    return pad_sequence(list(tokens), batch_first=True), torch.tensor(labels)


class Tagger(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.enter = nn.Embedding(VOCABULARY, width, padding_idx=0)
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, batch_first=True, dropout=0.1)
        self.body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.tokens = nn.Linear(width, VOCABULARY)
        self.leave = nn.Linear(width, LABELS)

    def forward(self, tokens):
        padding = tokens == 0
        hidden = self.body(self.enter(tokens), src_key_padding_mask=padding)
        mean = (hidden * ~padding[..., None]).sum(1) / (~padding).sum(1, keepdim=True)
        return self.leave(mean), self.tokens(hidden)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--accum", type=int, default=1)
    parser.add_argument("--longest", type=int, default=200)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--rows", type=int, default=200)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--virtual", type=int, default=1, help="so many times --accum micro-batches make a step")
    parser.add_argument("--keep", choices=("labels", "logits"), default="labels")
    args = parser.parse_args()
    torch.manual_seed(0)
    train = DataLoader(Sentences(args.rows, args.longest, 0), args.batch_size, shuffle=True, collate_fn=collate, num_workers=args.workers)
    val = DataLoader(Sentences(args.batch_size * 7 + 1, args.longest, 1), args.batch_size * 2, collate_fn=collate)
    model = Tagger(args.width)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for epoch in range(args.epochs):
        model.train()
        for step, (tokens, labels) in enumerate(train, start=1):
            said, again = model(tokens)
            loss = nn.functional.cross_entropy(said, labels) + nn.functional.cross_entropy(again.flatten(0, 1), tokens.flatten())
            (loss / (args.accum * args.virtual)).backward()
            if step % (args.accum * args.virtual) == 0:
                optimizer.step()
                optimizer.zero_grad()
        model.eval()
        kept, right, count = [], 0, 0
        with torch.no_grad():
            for tokens, labels in val:
                said, again = model(tokens)
                right += int((said.argmax(1) == labels).sum())
                count += len(labels)
                kept.append(again if args.keep == "logits" else said.argmax(1))
        print(f"epoch {epoch + 1}: accuracy {right / count:.3f}, kept {sum(one.numel() for one in kept)}", flush=True)
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "last.pt")


if __name__ == "__main__":
    main()
