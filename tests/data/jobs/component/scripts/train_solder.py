from ultralytics import YOLO

model = YOLO('yolo11n.yaml')
model.train(data='component/data.yaml', epochs=2, batch=-1, imgsz=96, workers=0, plots=False, project='runs/solder')
