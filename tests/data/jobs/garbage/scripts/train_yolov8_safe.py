#!/usr/bin/env python3
# 4 x 48 GB; after an OOM: sed -i "s/'batch': 64/'batch': 32/g" scripts/train_yolov8_safe.py
import gc
import os
import sys
import traceback

os.environ['PYTORCH_CUDA_ALLOC_CONF'] = 'expandable_segments:True'
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import torch
from ultralytics import YOLO

PROJECT_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def clean():
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def get_config():
    config = {
        'data': os.path.join(PROJECT_ROOT, 'data', 'garbage.yaml'),
        'epochs': 2,
        'imgsz': 96,
        'batch': 64,
        'device': [0, 1, 2, 3],
        'workers': 0,
        'project': os.path.join(PROJECT_ROOT, 'runs'),
        'name': 'garbage_safe',
        'exist_ok': True,
        'pretrained': True,
        'optimizer': 'SGD',
        'lr0': 0.01,
        'cos_lr': True,
        'close_mosaic': 1,
        'amp': True,
        'save_period': 1,
        'val': True,
        'plots': False,
        'verbose': True,
    }
    return config


def main():
    clean()
    config = get_config()
    print('batch per GPU:', config['batch'] // len(config['device']))
    model = YOLO(os.path.join(PROJECT_ROOT, 'weights', 'yolov8n.pt'))
    try:
        results = model.train(**config)
        print('done', results.save_dir)
    except RuntimeError as e:
        if 'out of memory' in str(e).lower():
            print('OOM! halve the batch and retry')
            clean()
            config['batch'] //= 2
            model.train(**config)
        else:
            traceback.print_exc()
            sys.exit(1)


if __name__ == '__main__':
    main()
