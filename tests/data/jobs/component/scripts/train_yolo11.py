from ultralytics import YOLO

if __name__ == '__main__':
    model = YOLO('yolo11n.yaml')
    model.train(
        data='component/data.yaml',
        epochs=2,
        imgsz=96,
        batch=32,
        optimizer='AdamW',
        lr0=0.002,
        amp=True,
        patience=100,
        workers=0,
        project='runs/component',
        name='yolo11l_32',
        plots=False,
    )
