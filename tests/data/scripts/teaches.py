"""A frozen model that is run without gradients before each step: a teacher, or the reference of a DPO that sees two texts to a row."""

import argparse

import torch
from torch import nn
from usual import Usual


class Taught(Usual):
    def __init__(self):
        parser = argparse.ArgumentParser()
        parser.add_argument("--by-hand", action="store_true")
        super().__init__(parser)
        wide = 2 * self.args.width
        self.teacher = nn.Sequential(nn.Linear(32, wide), nn.ReLU(), nn.Linear(wide, wide), nn.ReLU(), nn.Linear(wide, 4)).eval()

    def step(self, batch, number=0):
        with torch.no_grad():
            wanted = self.teacher(torch.cat([batch[0], batch[0] + 0.1]))[: len(batch[0])]
        (nn.functional.mse_loss(self.model(batch[0]), wanted) / self.args.accum).backward()
        if number % self.args.accum == 0:
            self.optimizer.step()
            self.optimizer.zero_grad()


if __name__ == "__main__":
    mine = Taught()
    for _ in range(3):
        if mine.args.by_hand:  # no loader
            for number, first in enumerate(range(0, 640, mine.args.batch_size), start=1):
                mine.step(mine.data[first : first + mine.args.batch_size], number)
        else:
            mine.one_pass()
        torch.save(mine.model.state_dict(), "taught.pt")
    mine.model.eval()
    with torch.no_grad():
        kept = [mine.model(rows).repeat(1, 3000) for rows, _ in mine.val]  # 3 MiB for each batch of 64
        print("right", sum(len(one) for one in kept))
