#!/usr/bin/env python3
"""YOLOv8x for CAPTCHA objects: python scripts/train_yolov8.py --data datasets/merged_all/dataset.yaml"""

import argparse
import logging
import os
from datetime import datetime
from pathlib import Path

import torch
import yaml
from ultralytics import YOLO

logging.basicConfig(level=logging.INFO, format='%(asctime)s %(levelname)s %(message)s')
log = logging.getLogger(__name__)


class Trainer:
    def __init__(self, model='yolov8n', device='auto'):
        self.device = ('0' if torch.cuda.is_available() else 'cpu') if device == 'auto' else device
        self.config = {
            'model': f'{model}.pt',
            'epochs': 2,
            'batch_size': 16,       # A100 80GB: 32 ok?
            'input_size': 96,       # 1280
            'multi_scale': True,
            'workers': 0,           # /dev/shm is small
            'cache': False,
            'patience': 50,
            'optimizer': 'AdamW',
            'lr0': 0.001,
            'augmentation': {'hsv_h': 0.015, 'degrees': 5.0, 'mosaic': 1.0, 'mixup': 0.1},
        }

    def check_environment(self):
        if torch.cuda.is_available():
            for i in range(torch.cuda.device_count()):
                props = torch.cuda.get_device_properties(i)
                log.info('GPU %d: %s %.1f GB', i, props.name, props.total_memory / 1024**3)
            torch.cuda.empty_cache()
        else:
            log.warning('no GPU, training will be slow')

    def check_data(self, path):
        data = yaml.safe_load(Path(path).read_text())
        for key in ('train', 'val', 'names'):
            if key not in data:
                raise ValueError(f'{path}: no {key}')
        log.info('%d classes', len(data['names']))

    def train(self, data):
        self.check_environment()
        self.check_data(data)
        model = YOLO(self.config['model'])
        log.info('batch %s at %s', self.config['batch_size'], self.config['input_size'])
        results = model.train(
            data=data,
            epochs=self.config['epochs'],
            batch=self.config['batch_size'],
            imgsz=self.config['input_size'],
            multi_scale=self.config['multi_scale'],
            workers=self.config['workers'],
            cache=self.config['cache'],
            device=self.device,
            patience=self.config['patience'],
            optimizer=self.config['optimizer'],
            lr0=self.config['lr0'],
            project='runs/train',
            name=f'captcha_{datetime.now():%Y%m%d_%H%M%S}',
            plots=False,
            save_period=10,
            **self.config['augmentation'],
        )
        best = Path(results.save_dir) / 'weights' / 'best.pt'
        metrics = YOLO(str(best)).val(data=data, device=self.device, plots=False)
        Path('results').mkdir(exist_ok=True)
        Path('results/summary.txt').write_text(f'{best}\nmAP50 {metrics.box.map50:.4f}\n')
        log.info('mAP50 %.4f, %s', metrics.box.map50, best)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--data', default='datasets/merged_all/dataset.yaml')
    parser.add_argument('--model', default='yolov8n')
    parser.add_argument('--device', default='auto')
    args = parser.parse_args()
    if not os.path.exists(args.data):
        raise SystemExit(f'{args.data} is not there')
    Trainer(args.model, args.device).train(args.data)


if __name__ == '__main__':
    main()
