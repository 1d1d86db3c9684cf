"""A script around Ultralytics' own Python interface, as many people have one."""

import argparse

from ultralytics import YOLO

MODELS = {"detect": "yolo11n.yaml", "segment": "yolo11n-seg.yaml", "pose": "yolo11n-pose.yaml", "obb": "yolo11n-obb.yaml"}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--task", choices=list(MODELS), default="detect")
    parser.add_argument("--data", required=True)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--imgsz", type=int, default=96)
    parser.add_argument("--epochs", type=int, default=1)
    args = parser.parse_args()
    model = YOLO(MODELS[args.task])
    model.train(data=args.data, batch=args.batch, imgsz=args.imgsz, epochs=args.epochs, device="cpu", workers=0, project="out", name="yolo")
    print(model.val(data=args.data, batch=args.batch, imgsz=args.imgsz, device="cpu", project="out").results_dict)


if __name__ == "__main__":
    main()
