"""Other people's repositories, unedited, by commands of their own READMEs: `make third-party` (see ``tests.third_party.__main__``)."""
