"""Makes little songs in four stems (drums, bass, other, vocals), laid out as MUSDB18 is: SPLIT/SONG/STEM.wav.

    python make_music.py DESTINATION [--train 24] [--valid 6] [--seconds 12] [--rate 8000] [--seed 0]

Everything is synthesised: decaying noise and sweeps for drums, a filtered saw for the bass, plucked chords, and a voice of
harmonics shaped by moving vowel formants with vibrato. A song has one key, one tempo and one chord progression.
"""

from __future__ import annotations

import argparse
import wave
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Signal = NDArray[np.float64]
STEMS = ("drums", "bass", "other", "vocals")
SCALE = (0, 2, 4, 5, 7, 9, 11)
PROGRESSIONS = ((0, 4, 5, 3), (0, 5, 3, 4), (5, 3, 0, 4), (0, 3, 4, 3))
VOWELS = ((730, 1090), (270, 2290), (530, 1840), (570, 840), (300, 870))  # first two formants in Hz (Peterson and Barney, 1952)


def frequency(degree: int, octave: int, key: int) -> float:
    """Of a degree of the major scale, in Hz; ``key`` is in semitones above C."""
    semitone = SCALE[degree % 7] + 12 * (degree // 7) + key
    return float(261.63 * 2 ** (octave - 4) * 2 ** (semitone / 12))


def decay(samples: int, rate: int, seconds: float) -> Signal:
    return np.exp(-np.arange(samples) / (rate * seconds))


def add(track: Signal, at: int, sound: Signal) -> None:
    """Mixes ``sound`` into ``track`` from sample ``at`` on; what goes beyond its end is lost."""
    end = min(len(track), at + len(sound))
    if at < end:
        track[at:end] += sound[: end - at]


def song(rng: np.random.Generator, *, seconds: float, rate: int) -> dict[str, Signal]:
    """The four stems of one song, each of ``seconds`` x ``rate`` samples."""
    stems = {stem: np.zeros(int(seconds * rate)) for stem in STEMS}
    key, beat = int(rng.integers(-5, 6)), 60 / rng.uniform(84, 132)
    chords = PROGRESSIONS[rng.integers(len(PROGRESSIONS))]
    for number in range(int(seconds / beat) + 1):
        at, chord = int(number * beat * rate), chords[(number // 4) % 4]
        _drums(stems["drums"], rng, at, number, beat, rate)
        _bass(stems["bass"], rng, at, chord, key, beat, rate)
        _pluck(stems["other"], rng, at, chord, key, beat, rate)
        if number % 2 == 0 and rng.random() < 0.8:
            _sing(stems["vocals"], rng, at, chord, key, 2 * beat, rate)
    return {stem: 0.25 * track / max(1e-3, float(np.sqrt(np.mean(track**2)))) * rng.uniform(0.7, 1.0) for stem, track in stems.items()}


def _drums(track: Signal, rng: np.random.Generator, at: int, number: int, beat: float, rate: int) -> None:
    long = int(0.25 * rate)
    time = np.arange(long) / rate
    if number % 2 == 0:
        add(track, at, 1.2 * np.sin(2 * np.pi * (45 * time + 8 * (1 - np.exp(-time * 30)))) * decay(long, rate, 0.07))
    else:
        noise = rng.standard_normal(long)
        add(track, at, 0.6 * noise * decay(long, rate, 0.06) + 0.4 * np.sin(2 * np.pi * 190 * time) * decay(long, rate, 0.04))
    for half in (0, 1):
        hat = np.diff(rng.standard_normal(long + 1)) * decay(long, rate, 0.015)
        add(track, at + int(half * beat / 2 * rate), 0.3 * hat)


def _bass(track: Signal, rng: np.random.Generator, at: int, chord: int, key: int, beat: float, rate: int) -> None:
    long = int(beat * rate)
    time = np.arange(long) / rate
    pitch = frequency(chord, 2, key)
    sound = sum((np.sin(2 * np.pi * pitch * k * time) / k**1.5 for k in range(1, 7)), np.zeros(long))
    add(track, at, sound * np.minimum(1, 50 * time) * decay(long, rate, beat))


def _pluck(track: Signal, rng: np.random.Generator, at: int, chord: int, key: int, beat: float, rate: int) -> None:
    long = int(1.5 * beat * rate)
    time = np.arange(long) / rate
    for step, third in enumerate((0, 2, 4)):
        pitch = frequency(chord + third, 4, key)
        sound = sum((np.sin(2 * np.pi * pitch * k * time) * np.exp(-2.5 * k * time) / k for k in range(1, 9)), np.zeros(long))
        add(track, at + int(step * beat / 3 * rate), 0.5 * sound)


def _sing(track: Signal, rng: np.random.Generator, at: int, chord: int, key: int, seconds: float, rate: int) -> None:
    long = int(seconds * 0.9 * rate)
    time = np.arange(long) / rate
    pitch = frequency(chord + int(rng.choice((0, 2, 4, 7))), 3, key) * (1 + 0.012 * np.sin(2 * np.pi * 5.5 * time))
    phase = 2 * np.pi * np.cumsum(pitch) / rate
    ways = [np.interp(time, (0, time[-1]), ends) for ends in zip(VOWELS[rng.integers(5)], VOWELS[rng.integers(5)], strict=True)]
    sound = np.zeros(long)
    for harmonic in range(1, int(0.45 * rate / pitch.max())):
        gain = sum((np.exp(-(((harmonic * pitch - way) / 160) ** 2)) for way in ways), np.full(long, 0.02))
        sound += gain * np.sin(harmonic * phase) / np.sqrt(harmonic)
    add(track, at, sound * np.minimum(1, 12 * time) * np.minimum(1, 8 * (time[-1] - time)))


def write(path: Path, signal: Signal, rate: int) -> None:
    """16-bit mono WAV."""
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes((np.clip(signal, -1, 1) * 32767).astype("<i2").tobytes())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("destination", type=Path)
    parser.add_argument("--train", type=int, default=24)
    parser.add_argument("--valid", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=12.0)
    parser.add_argument("--rate", type=int, default=8000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    rng = np.random.default_rng(args.seed)
    for split, count in (("train", args.train), ("valid", args.valid)):
        for number in range(count):
            folder = args.destination / split / f"song{number:03d}"
            folder.mkdir(parents=True, exist_ok=True)
            for stem, signal in song(rng, seconds=args.seconds, rate=args.rate).items():
                write(folder / f"{stem}.wav", signal, args.rate)
    print(f"{args.train} + {args.valid} songs in {args.destination}")


if __name__ == "__main__":
    main()
