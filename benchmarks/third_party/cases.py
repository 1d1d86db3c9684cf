"""The repositories, and a command of each as its README has it (with less to train), with the data it needs."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """One command of somebody's repository."""

    name: str
    repo: str
    """owner/name, as on GitHub."""
    script: str
    """Without it the repository counts as not here."""
    folder: str = ""
    """Folder in the repository that the command is typed in."""
    command: tuple[str, ...]
    """{data}: where the data lie; ``python`` and programs beside it are the scripts' own."""
    data: str
    """A kind of ``data``."""
    data_at: str = ""
    """Where the script wants it, from the folder; else beside the repository."""
    needs: tuple[str, ...] = ("torch",)
    """Modules that the scripts' Python must have."""
    env: dict[str, str] = field(default_factory=dict)
    """{data}, too."""
    enough: str = "6GiB"
    """A CPU's budget in which the command fits as it is."""
    tight: float = 0.8
    """Part of the asked rung's peak in which it then must not fit."""
    batch: int = 0
    """The key: samples of an optimizer step, as the program's own words ask for them."""
    steps: int = 0
    """The key: optimizer steps that the command makes as it stands; 0 where no number is asked for."""
    refuses: str = ""
    """The key: why nothing with more accumulation may be launched; a part of the words in which that is to be said."""
    leaves: str = ""
    """The weights that it leaves, as a pattern in its folder: they are held against those of the plain command."""
    by_row: bool = False
    """It draws at random for a batch: row by row (``by_row``), the plain command's weights can be compared."""
    breaks: str = ""
    """What it says where it breaks without autofit, too, here (no card, today's libraries): that must be said, as its own crash."""


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


CASES: tuple[Case, ...] = (
    Case(
        name="mnist", repo="pytorch/examples", script="mnist/main.py", folder="mnist", data="mnist", data_at="../data",
        needs=("torch", "torchvision"), command=_words("python main.py --epochs 1 --batch-size 512"),
        batch=512, steps=40,
    ),
    Case(
        name="imagenet", repo="pytorch/examples", script="imagenet/main.py", folder="imagenet", data="pictures",
        needs=("torch", "torchvision"), command=_words("python main.py -a resnet18 --epochs 1 -b 32 -j 0 {data}"),
        batch=32, steps=12,
    ),
    Case(
        name="vae", repo="pytorch/examples", script="vae/main.py", folder="vae", data="mnist", data_at="../data",
        needs=("torch", "torchvision"), command=_words("python main.py --epochs 1 --batch-size 4096"),
        env={"ACCUMULATE_LOSS": "sum"},  # what it needs to be told; no more samples than its test set has
        batch=4096, steps=5,
    ),
    Case(
        name="nanogpt", repo="karpathy/nanoGPT", script="train.py", data="characters", data_at="data/shakespeare_char",
        command=_words(
            "python train.py config/train_shakespeare_char.py --device=cpu --compile=False --eval_iters=4 --log_interval=1 --block_size=64 "
            "--batch_size=64 --n_layer=4 --n_head=4 --n_embd=128 --max_iters=20 --lr_decay_iters=20 --eval_interval=10 --dropout=0.0 "
            "--always_save_checkpoint=True"
        ),
        leaves="out-shakespeare-char/ckpt.pt", by_row=True, batch=64, steps=21,  # its loop ends after the step that is beyond max_iters
    ),
    Case(
        name="unet", repo="milesial/Pytorch-UNet", script="train.py", data="masks", data_at="data", needs=("torch", "torchvision", "wandb"),
        env={"WANDB_MODE": "disabled"}, command=_words("python train.py --epochs 1 --batch-size 16 --scale 1.0 --bilinear"), tight=0.85,
        batch=16, steps=10,
    ),
    Case(
        name="timm", repo="huggingface/pytorch-image-models", script="train.py", data="pictures", needs=("torch", "torchvision", "timm"),
        command=_words("python train.py {data} --model resnet18 --num-classes 4 -b 32 --epochs 1 --img-size 64 --device cpu -j 1"),
        batch=32, steps=12,
        tight=0.9,
    ),
    Case(
        name="torchvision", repo="pytorch/vision", script="references/classification/train.py", folder="references/classification",
        data="pictures", needs=("torch", "torchvision"),
        command=_words(
            "python train.py --data-path {data} --model resnet18 --device cpu -b 32 --epochs 1 -j 0 --val-resize-size 64 "
            "--val-crop-size 64 --train-crop-size 64"
        ),
        breaks="Default process group has not been initialized",
    ),
    Case(
        name="run_mlm", repo="huggingface/transformers", script="examples/pytorch/language-modeling/run_mlm.py", data="masked",
        folder="examples/pytorch/language-modeling", needs=("torch", "transformers", "datasets", "evaluate"),
        command=_words(
            "python run_mlm.py --config_name {data}/model --tokenizer_name {data}/model --train_file {data}/train.txt --validation_file "
            "{data}/val.txt --line_by_line --do_train --max_seq_length 64 --per_device_train_batch_size 64 --max_steps 6 "
            "--output_dir out --save_strategy no --report_to none --use_cpu"
        ),
        leaves="out/model.safetensors", by_row=True, batch=64, steps=6,
    ),
    Case(
        name="run_glue_no_trainer", repo="huggingface/transformers", folder="examples/pytorch/text-classification",
        script="examples/pytorch/text-classification/run_glue_no_trainer.py", data="sentences_in_classes", data_at="accuracy",
        needs=("torch", "transformers", "datasets", "evaluate", "accelerate"),
        command=_words(
            "python run_glue_no_trainer.py --model_name_or_path {data}/model --train_file {data}/train.csv --max_length 64 "
            "--validation_file {data}/val.csv --per_device_train_batch_size 128 --num_train_epochs 1 --seed 1 --output_dir out"
        ),
        leaves="out/model.safetensors", batch=128, steps=6,  # its own accumulation makes a step of the first micro-batch alone
    ),
    Case(
        name="run_clip", repo="huggingface/transformers", script="examples/pytorch/contrastive-image-text/run_clip.py", data="captioned",
        folder="examples/pytorch/contrastive-image-text", needs=("torch", "torchvision", "transformers", "datasets"),
        command=_words(
            "python run_clip.py --model_name_or_path {data}/model --train_file {data}/train.json --image_column image_path "
            "--caption_column caption --max_seq_length 32 --do_train --remove_unused_columns=False --per_device_train_batch_size 64 "
            "--num_train_epochs 1 --output_dir out --save_strategy no --report_to none --use_cpu"
        ),
        batch=64, refuses="its rows see each other",
    ),
    Case(
        name="unconditional", repo="huggingface/diffusers", script="examples/unconditional_image_generation/train_unconditional.py",
        folder="examples/unconditional_image_generation", data="denoised",
        needs=("torch", "torchvision", "datasets", "accelerate", "diffusers", "tensorboard"),
        command=_words(
            "accelerate launch --cpu --num_processes 1 train_unconditional.py --train_data_dir {data}/train --resolution 32 "
            "--model_config_name_or_path {data}/unet --train_batch_size 64 --num_epochs 1 --ddpm_num_inference_steps 2 --eval_batch_size 4 "
            "--output_dir out"
        ),
        batch=64, steps=6,
    ),
    Case(
        name="word_language_model", repo="pytorch/examples", script="word_language_model/main.py", folder="word_language_model",
        data="wikitext", data_at="data/wikitext-2",
        command=_words("python main.py --epochs 1 --batch_size 64 --emsize 256 --nhid 256 --bptt 64 --dropout 0.0"),
        leaves="model.pt", batch=64, refuses="not a loop over a data loader",
    ),
    Case(
        name="yolov5", repo="ultralytics/yolov5", script="train.py", data="boxes",
        needs=("torch", "torchvision", "cv2", "ultralytics", "seaborn"),
        env={"YOLO_AUTOINSTALL": "false", "WANDB_MODE": "disabled", "YOLOV5_CONFIG_DIR": "{data}/config"},  # where it finds its font
        command=(
            "python", "train.py", "--data", "{data}/boxes.yaml", "--weights", "", "--cfg", "yolov5n.yaml",
            *_words("--img 128 --batch-size 32 --epochs 2 --device cpu --workers 0 --noplots"),
        ),
        batch=64, steps=6,  # its nominal batch, of which warm-up leaves none yet: a step for each micro-batch of three in a pass
    ),
    Case(
        name="separation", repo="ZFTurbo/Music-Source-Separation-Training", script="train.py", data="stems",
        needs=("torch", "soundfile", "librosa", "omegaconf", "ml_collections", "audiomentations", "pedalboard", "auraloss",
               "torch_log_wmse"),
        env={"WANDB_MODE": "disabled"},
        command=_words(
            "python train.py --model_type mdx23c --config_path {data}/mine.yaml --results_path out --data_path {data}/train "
            "--valid_path {data}/val --num_workers 0 --device_ids 0"
        ),
        leaves="out/last_*.ckpt", batch=8, steps=16,  # num_steps in each epoch
        refuses="a pass takes 4 samples at 1 x 4, 16 at 4 x 1",  # micro-batches are counted; its loss leaves out rows of each
    ),
    Case(
        name="separation_mean", repo="ZFTurbo/Music-Source-Separation-Training", script="train.py", data="stems",
        needs=("torch", "soundfile", "librosa", "omegaconf", "ml_collections", "audiomentations", "pedalboard", "auraloss",
               "torch_log_wmse"),
        env={"WANDB_MODE": "disabled"},
        command=_words(
            "python train.py --model_type mdx23c --config_path {data}/mine.yaml --results_path out --data_path {data}/train "
            "--valid_path {data}/val --num_workers 0 --device_ids 0 --loss mse_loss"
        ),
        leaves="out/last_*.ckpt", batch=8, steps=16,  # the same with a mean of all rows: only its num_steps has to be turned
    ),
    Case(
        name="run_clm", repo="huggingface/transformers", script="examples/pytorch/language-modeling/run_clm.py", data="text",
        folder="examples/pytorch/language-modeling", needs=("torch", "transformers", "datasets", "evaluate"),
        command=_words(
            "python run_clm.py --model_name_or_path {data}/model --train_file {data}/train.txt --do_train --block_size 128 "
            "--per_device_train_batch_size 32 --num_train_epochs 1 --output_dir out --report_to none --use_cpu"
        ),
        batch=32,
    ),
    Case(
        name="run_clm_no_trainer", repo="huggingface/transformers", script="examples/pytorch/language-modeling/run_clm_no_trainer.py",
        data="text", folder="examples/pytorch/language-modeling", needs=("torch", "transformers", "datasets", "accelerate"),
        command=_words(
            "accelerate launch --cpu --num_processes 1 run_clm_no_trainer.py --model_name_or_path {data}/model "
            "--train_file {data}/train.txt --validation_file {data}/val.txt --block_size 128 --per_device_train_batch_size 32 "
            "--num_train_epochs 1 --output_dir out"
        ),
        breaks="AttributeError: TPU",
    ),
    Case(
        name="lightning_cli", repo="Lightning-AI/pytorch-lightning", script="examples/pytorch/basics/autoencoder.py", data="twice_mnist",
        folder="examples/pytorch/basics", data_at="../../Datasets", needs=("torch", "torchvision", "lightning", "jsonargparse"),
        env={"PL_TEST": "1"},
        command=_words("python autoencoder.py --trainer.max_epochs 1 --trainer.accelerator cpu --data.batch_size 16384"),
    ),
    Case(
        name="lightning_two_files", repo="Lightning-AI/pytorch-lightning", script="examples/pytorch/basics/backbone_image_classifier.py",
        data="mnist_and_two_files", folder="examples/pytorch/basics", data_at="../../Datasets",
        needs=("torch", "torchvision", "lightning", "jsonargparse"), env={"PL_TEST": "1"},
        command=_words("python backbone_image_classifier.py --config {data}/trainer.yaml --config {data}/data.yaml"),
        leaves="checkpoints/*.ckpt", batch=16384, steps=8,  # of the second file; the source's own default is 32
    ),
    Case(
        name="trl_sft", repo="huggingface/trl", script="trl/scripts/sft.py", data="prompts", needs=("torch", "transformers", "trl"),
        command=_words(
            "python trl/scripts/sft.py --model_name_or_path {data}/model --dataset_name {data}/set --num_train_epochs 1 "
            "--per_device_train_batch_size 32 --gradient_accumulation_steps 1 --eval_strategy epoch --output_dir out --report_to none "
            "--use_cpu --bf16 False"
        ),
    ),
    Case(
        name="hydra_template", repo="ashleve/lightning-hydra-template", script="src/train.py", data="whole_mnist", data_at="data",
        needs=("torch", "torchvision", "lightning", "hydra", "rootutils"), env={"TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "1"},
        command=_words("python src/train.py trainer=cpu trainer.max_epochs=1 data.batch_size=16384"),
    ),
    Case(
        name="siamese", repo="pytorch/examples", script="siamese_network/main.py", folder="siamese_network", data="mnist",
        data_at="../data", needs=("torch", "torchvision"), command=_words("python main.py --epochs 1 --batch-size 1024 --no-accel"),
        batch=1024,
    ),
    Case(
        name="mnist_rnn", repo="pytorch/examples", script="mnist_rnn/main.py", folder="mnist_rnn", data="mnist", data_at="../data",
        needs=("torch", "torchvision"), command=_words("python main.py --epochs 1 --batch-size 4096 --test-batch-size 500"),
        batch=4096, steps=5,
    ),
    Case(
        name="chargpt", repo="karpathy/minGPT", script="projects/chargpt/chargpt.py", folder="projects/chargpt", data="letters",
        data_at=".", env={"PYTHONPATH": "../.."},
        command=_words("python chargpt.py --trainer.batch_size=64 --trainer.max_iters=8 --model.model_type=gpt-nano"),
        batch=64, steps=8,
    ),
    Case(
        name="trl_sft_file", repo="huggingface/trl", script="trl/scripts/sft.py", data="prompts_and_file",
        needs=("torch", "transformers", "trl"), command=_words("trl sft --config {data}/sft.yaml --output_dir out"),
        batch=32, steps=19,
    ),
    Case(
        name="graphs", repo="pyg-team/pytorch_geometric", script="examples/proteins_topk_pool.py", folder="examples", data="proteins",
        data_at="../data/PROTEINS", needs=("torch", "torch_geometric"), command=_words("python proteins_topk_pool.py"), batch=60,
    ),
)  # fmt: skip
