"""Speaks the ten digits with espeak-ng in several voices, into digits.ogg and digits.json beside this file. Run once; that is shipped.

    python record_digits.py        needs espeak-ng and soundfile

digits.json: one object for each recording: digit, voice, start and end in samples of digits.ogg (16 kHz, mono).
"""

from __future__ import annotations

import io
import json
import subprocess
from pathlib import Path

import numpy as np
import soundfile

VOICES = ("en-us", "en-us+f2", "en-gb", "en-gb+f4", "en-gb-scotland+m3", "en-us+m7")
WORDS_PER_MINUTE = 170
SAMPLE_RATE = 16_000
DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
QUIET = 0.01
"""Below this part of the loudest sample a recording counts as silence at its ends."""


def spoken(word: str, voice: str) -> np.ndarray:
    """One word, trimmed, at 16 kHz."""
    said = subprocess.run(["espeak-ng", "-v", voice, "-s", str(WORDS_PER_MINUTE), "--stdout", word], capture_output=True, check=True)
    wave, rate = soundfile.read(io.BytesIO(said.stdout), dtype="float32")
    loud = np.flatnonzero(np.abs(wave) > QUIET * np.abs(wave).max())
    wave = wave[loud[0] : loud[-1] + 1]
    length = round(len(wave) * SAMPLE_RATE / rate)
    spectrum = np.fft.rfft(wave)[: length // 2 + 1]
    resampled = np.fft.irfft(spectrum, n=length) * (length / len(wave))
    return np.asarray(0.5 * resampled / np.abs(resampled).max(), dtype=np.float32)


def main() -> None:
    here = Path(__file__).parent
    waves, index, at = [], [], 0
    for voice in VOICES:
        for digit, word in enumerate(DIGITS):
            wave = spoken(word, voice)
            index.append({"digit": digit, "voice": voice, "start": at, "end": at + len(wave)})
            waves.append(wave)
            at += len(wave)
    soundfile.write(here / "digits.ogg", np.concatenate(waves), SAMPLE_RATE, format="OGG", subtype="VORBIS")
    (here / "digits.json").write_text("[\n" + ",\n".join(json.dumps(row) for row in index) + "\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
