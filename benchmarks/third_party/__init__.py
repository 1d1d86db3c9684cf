"""Other people's repositories, unedited, by commands of their own READMEs: `make third-party` (see ``benchmarks.third_party.__main__``)."""
