"""YOLO11n learns to find digits at 640 px, 32 images at once with AMP, as a person's own script trains it. Knows nothing of autofit."""

import sys

from ultralytics import YOLO

if __name__ == "__main__":
    YOLO("yolo11n.yaml").train(data=sys.argv[1], batch=32, nbs=32, imgsz=640, epochs=3, workers=4, close_mosaic=0, plots=False, device=0)
