"""A training in a child of the script's, forked or spawned; the model is made there, or before (``--made above``)."""

import argparse
import multiprocessing
import sys

from usual import Usual

parser = argparse.ArgumentParser()
parser.add_argument("--how", choices=("fork", "spawn"), default="fork")
parser.add_argument("--made", choices=("above", "there"), default="there")


def train(usual=None):
    (usual or Usual(parser)).train_for(3)


if __name__ == "__main__":
    words = vars(parser.parse_known_args()[0])
    given = (Usual(parser),) if words["made"] == "above" else ()
    child = multiprocessing.get_context(words["how"]).Process(target=train, args=given)
    child.start()
    child.join()
    sys.exit(child.exitcode)
