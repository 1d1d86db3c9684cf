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
    own: tuple[str, ...] = ()
    """Words of autofit's own, without which nothing would be turned."""
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
    aside: bool = False
    """What it draws at random for an evaluation is drawn aside (``aside``): so the plain command's weights can be compared."""
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
        name="nanogpt", repo="karpathy/nanoGPT", script="train.py", data="characters", data_at="data/shakespeare_char",
        command=_words(
            "python train.py config/train_shakespeare_char.py --device=cpu --compile=False --eval_iters=4 --log_interval=1 --block_size=64 "
            "--batch_size=64 --n_layer=4 --n_head=4 --n_embd=128 --max_iters=20 --lr_decay_iters=20 --eval_interval=10 --dropout=0.0 "
            "--always_save_checkpoint=True"
        ),
        leaves="out-shakespeare-char/ckpt.pt", aside=True, batch=64, steps=21,  # its loop ends after the step that is beyond max_iters
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
        leaves="model.pt", batch=64, refuses="don't come of a loop over a data loader",
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
        name="lightning_two_files", repo="Lightning-AI/pytorch-lightning", script="examples/pytorch/basics/backbone_image_classifier.py",
        data="mnist_and_two_files", folder="examples/pytorch/basics", data_at="../../Datasets",
        needs=("torch", "torchvision", "lightning", "jsonargparse"), env={"PL_TEST": "1"},
        command=_words("python backbone_image_classifier.py --config {data}/trainer.yaml --config {data}/data.yaml"),
        leaves="checkpoints/*.ckpt", batch=16384, steps=8,  # of the second file; the source's own default is 32
    ),
    Case(
        name="trl_sft_file", repo="huggingface/trl", script="trl/scripts/sft.py", data="prompts_and_file",
        needs=("torch", "transformers", "trl"), command=_words("trl sft --config {data}/sft.yaml --output_dir out"),
        batch=32, steps=19,
    ),
    Case(
        name="graphs", repo="pyg-team/pytorch_geometric", script="examples/proteins_topk_pool.py", folder="examples", data="proteins",
        data_at="../data/PROTEINS", needs=("torch", "torch_geometric"), command=_words("python proteins_topk_pool.py"), batch=60,
        refuses="its rows see each other",  # equal scores: which of them are the top k is up to the batch
    ),
    Case(
        name="nanochat", repo="karpathy/nanochat", script="scripts/base_train.py", data="documents",
        needs=("torch", "tiktoken", "rustbpe", "wandb", "pyarrow"),
        env={"NANOCHAT_BASE_DIR": "{data}", "TORCHDYNAMO_DISABLE": "1", "ARROW_DEFAULT_MEMORY_POOL": "system"},
        command=_words(
            "python -m scripts.base_train --depth=2 --head-dim=32 --window-pattern=L --max-seq-len=128 --device-batch-size=16 "
            "--total-batch-size=4096 --eval-every=3 --eval-tokens=4096 --core-metric-every=-1 --sample-every=-1 --num-iterations=5"
        ),
        leaves="../data/base_checkpoints/d2/model_*.pt", batch=32, steps=5,  # 4096 tokens of 128 in a step
    ),
    Case(
        name="minimind_pretrain", repo="jingyaogong/minimind", script="trainer/train_pretrain.py", folder="trainer", data="lines",
        needs=("torch", "transformers", "datasets"),
        command=_words(
            "python train_pretrain.py --hidden_size 64 --num_hidden_layers 1 --batch_size 16 --accumulation_steps 2 --max_seq_len 48 "
            "--epochs 1 --num_workers 0 --log_interval 4 --data_path {data}/pretrain.jsonl"
        ),
        leaves="../out/pretrain_64.pth", batch=32, steps=4,
    ),
    Case(
        name="minimind_sft", repo="jingyaogong/minimind", script="trainer/train_full_sft.py", folder="trainer", data="lines",
        needs=("torch", "transformers", "datasets"),
        command=_words(
            "python train_full_sft.py --hidden_size 64 --num_hidden_layers 1 --batch_size 32 --accumulation_steps 1 --max_seq_len 64 "
            "--epochs 1 --num_workers 0 --log_interval 4 --data_path {data}/sft.jsonl --from_weight none"
        ),
        leaves="../out/full_sft_64.pth", batch=32, steps=4,
    ),
    Case(
        name="minimind_moe", repo="jingyaogong/minimind", script="trainer/train_pretrain.py", folder="trainer", data="lines",
        needs=("torch", "transformers", "datasets"),
        command=_words(
            "python train_pretrain.py --hidden_size 64 --num_hidden_layers 1 --use_moe 1 --batch_size 32 --accumulation_steps 1 "
            "--max_seq_len 48 --epochs 1 --num_workers 0 --log_interval 4 --data_path {data}/pretrain.jsonl"
        ),
        batch=32, steps=4, refuses="balances experts",  # its router's gradients alone are others
    ),
    Case(
        name="minimind_dpo", repo="jingyaogong/minimind", script="trainer/train_dpo.py", folder="trainer", data="lines",
        needs=("torch", "transformers", "datasets"),
        command=_words(
            "python train_dpo.py --hidden_size 64 --num_hidden_layers 1 --batch_size 16 --accumulation_steps 1 --max_seq_len 64 "
            "--epochs 1 --num_workers 0 --log_interval 4 --data_path {data}/dpo.jsonl --from_weight none"
        ),
        leaves="../out/dpo_64.pth", batch=16, steps=4,
    ),
    Case(
        name="minimind_lora", repo="jingyaogong/minimind", script="trainer/train_lora.py", folder="trainer", data="lines",
        needs=("torch", "transformers", "datasets"),
        command=_words(
            "python train_lora.py --hidden_size 64 --num_hidden_layers 1 --batch_size 32 --max_seq_len 64 --epochs 1 --num_workers 0 "
            "--log_interval 4 --data_path {data}/sft.jsonl --from_weight none"
        ),
        leaves="../out/lora_medical_64.pth", batch=32, steps=4,
    ),
    Case(
        name="minimind_distillation", repo="jingyaogong/minimind", script="trainer/train_distillation.py", folder="trainer", data="lines",
        needs=("torch", "transformers", "datasets"),
        command=_words(
            "python train_distillation.py --student_hidden_size 64 --student_num_layers 1 --teacher_hidden_size 64 --teacher_num_layers 1 "
            "--teacher_use_moe 0 --batch_size 32 --max_seq_len 64 --epochs 1 --num_workers 0 --log_interval 4 "
            "--data_path {data}/sft.jsonl --from_student_weight none --from_teacher_weight none"
        ),
        leaves="../out/full_dist_64.pth", batch=32, steps=4,
    ),
    Case(
        name="litgpt", repo="Lightning-AI/litgpt", script="litgpt/finetune/full.py", data="instructions", data_at="data",
        needs=("torch", "lightning", "jsonargparse", "tokenizers"),
        command=_words(
            "python -m litgpt finetune_full {data}/model --data JSON --data.json_path {data}/set --data.num_workers 0 "
            "--train.global_batch_size 16 --train.micro_batch_size 16 --train.epochs 1 --train.lr_warmup_steps 2 --eval.max_new_tokens 4 "
            "--precision 32-true --out_dir out"
        ),
        leaves="out/final/lit_model.pth", batch=16, steps=4,
    ),
    Case(
        name="build_nanogpt", repo="karpathy/build-nanogpt", script="train_gpt2.py", data="build_nanogpt_on_a_cpu", data_at=".",
        needs=("torch", "tiktoken", "transformers"), own=("--set", "B"), command=_words("python train_gpt2.py"),
        batch=32, steps=5,  # 2048 tokens of 64 in a step
    ),
    Case(
        name="llm_c", repo="karpathy/llm.c", script="train_gpt2.py", data="llm_c_on_a_cpu", data_at=".", needs=("torch", "tiktoken"),
        command=_words(
            "python train_gpt2.py --input_bin mine.bin --input_val_bin mine.bin --output_dir out --model d12 --batch_size 32 "
            "--sequence_length 64 --total_batch_size 4096 --num_iterations 6 --warmup_iters 2 --learning_rate_decay_frac 0.1 "
            "--val_loss_every 3 --val_max_steps 2 --overfit_single_batch 0 --write_tensors 0 --device cpu"
        ),
        batch=64, steps=6,  # 4096 tokens of 64 in a step
    ),
    Case(
        name="autoresearch", repo="karpathy/autoresearch", script="train.py", data="autoresearch_on_a_cpu", data_at=".",
        needs=("torch", "tiktoken", "rustbpe", "pyarrow"), env={"TORCHDYNAMO_DISABLE": "1", "ARROW_DEFAULT_MEMORY_POOL": "system"},
        own=("--set", "DEVICE_BATCH_SIZE"), command=_words("python train.py"), batch=128, steps=12,  # 16384 tokens of 128 in a step
    ),
    Case(
        name="vae", repo="pytorch/examples", script="vae/main.py", folder="vae", data="mnist", data_at="../data",
        needs=("torch", "torchvision"), command=_words("python main.py --no-accel --epochs 1 --batch-size 4000"), batch=4000, steps=5,
    ),
    Case(
        name="from_scratch", repo="FareedKhan-dev/train-llm-from-scratch", script="scripts/pretrain_base.py", data="tokens_in_h5",
        needs=("torch", "h5py"), env={"PYTHONPATH": "."},
        command=_words("python scripts/pretrain_base.py --config {data}/pretrain.json"),
        leaves="out/base.pt", batch=32, steps=5,  # 16 x 2 in its file
    ),
    Case(
        name="from_scratch_ranks", repo="FareedKhan-dev/train-llm-from-scratch", script="scripts/pretrain_base.py", data="tokens_in_h5",
        needs=("torch", "h5py"), env={"PYTHONPATH": "."},
        command=_words(
            "torchrun --standalone --nproc_per_node=2 scripts/pretrain_base.py --config {data}/pretrain.json --batch_size 16 --grad_accum 1"
        ),
        leaves="out/base.pt", batch=32, steps=5,
    ),
    Case(
        name="meanflow", repo="haidog-yaqub/MeanFlow", script="train.py", data="mnist_and_python_file",
        needs=("torch", "torchvision", "accelerate", "einops", "timm"),
        command=_words("python train.py --config {data}/mine.py --run_suffix mine"), batch=64, steps=5, refuses="counts its steps itself",
    ),
    Case(
        name="mazes", repo="SakanaAI/continuous-thought-machines", script="tasks/mazes/train.py", data="mazes", data_at="data/mazes",
        needs=("torch", "torchvision", "autoclip", "seaborn", "imageio", "gymnasium"),
        command=_words(
            "python -m tasks.mazes.train --model lstm --d_model 64 --d_input 32 --heads 2 --iterations 3 --num_layers 1 --dropout 0.0 "
            "--backbone_type resnet18-1 --maze_route_length 40 --batch_size 16 --batch_size_test 16 --training_iterations 5 "
            "--warmup_steps 2 --track_every 100 --save_every 3 --log_dir out"
        ),
        batch=16, steps=5, refuses="counts its steps itself",
    ),
    Case(
        name="parity", repo="SakanaAI/continuous-thought-machines", script="tasks/parity/train.py", data="nothing",
        needs=("torch", "torchvision", "autoclip", "seaborn", "imageio", "gymnasium"),
        command=_words("python -m tasks.parity.train --d_model 64 --iterations 6 --training_iterations 9 --log_dir out"),
        breaks="object has no attribute 'model'",
    ),
    Case(
        name="gan_2025", repo="tanishqkumar/beyond-nanogpt", script="generative-models/train_gan.py", folder="generative-models",
        data="few_digits", data_at="data", needs=("torch", "torchvision"),
        command=_words("python train_gan.py --batch-size 250 --epochs 2"), batch=250,
        refuses="throws gradients away",
    ),
    Case(
        name="flow_2025", repo="tanishqkumar/beyond-nanogpt", script="generative-models/train_flow_matching.py",
        folder="generative-models", data="few_digits", data_at="data", needs=("torch", "torchvision", "wandb"),
        command=_words("python train_flow_matching.py --B 1000 --steps 6 --nhidden 1 --mult 1 --save"), batch=1000, steps=6,
        refuses="counts its steps itself",
    ),
    Case(
        name="nanotabpfn", repo="automl/nanoTabPFN", script="train.py", data="tables_in_h5", data_at=".",
        needs=("torch", "h5py", "schedulefree", "sklearn"), env={"OMP_NUM_THREADS": "1"},
        # it draws its batches by itself, and no word says how many rows
        command=_words("python train.py"), steps=2500, refuses="the micro-batch isn't turned",
    ),
    Case(
        name="lightly_train", repo="lightly-ai/lightly-train", script="pyproject.toml", data="pictures",
        needs=("torch", "torchvision", "lightly_train"),
        command=_words(
            "lightly-train pretrain out=out data={data}/val model=torchvision/resnet18 method=simclr epochs=1 batch_size=32 "
            "num_workers=0 accelerator=cpu transform_args.image_size=[64,64]"
        ),
        batch=32, steps=3, refuses="rows see each other",
    ),
    Case(
        name="time_series", repo="thuml/Time-Series-Library", script="run.py", data="hours",
        needs=("torch", "sktime", "pandas", "patoolib", "reformer_pytorch"),
        command=_words(
            "python -u run.py --task_name long_term_forecast --is_training 1 --root_path {data} --data_path mine.csv --model_id mine "
            "--model iTransformer --data custom --features M --seq_len 96 --label_len 48 --pred_len 24 --e_layers 2 --d_layers 1 "
            "--enc_in 7 --dec_in 7 --c_out 7 --d_model 64 --d_ff 64 --dropout 0.0 --des mine --itr 1 --train_epochs 1 "
            "--batch_size 128 --num_workers 0 --no_use_gpu"
        ),
        leaves="checkpoints/*/checkpoint.pth", batch=128, steps=3,
    ),
    Case(
        name="tabicl", repo="soda-inria/tabicl", script="src/tabicl/train/__main__.py", data="nothing",
        needs=("torch", "einops", "xgboost", "wandb"), env={"PYTHONPATH": "src"},
        command=_words(
            "python -m tabicl.train --device cpu --max_steps 4 --batch_size 8 --micro_batch_size 8 --batch_size_per_gp 8 "
            "--min_features 4 --max_features 4 --max_classes 3 --max_seq_len 32 --prior_type dummy --n_jobs 1 --embed_dim 32 "
            "--col_num_blocks 1 --row_num_blocks 1 --icl_num_blocks 2 --col_num_inds 16 --amp False --checkpoint_dir out "
            "--save_temp_every 2 --save_perm_every 4"
        ),
        leaves="out/step-4.ckpt", batch=8, steps=4,
    ),
    Case(
        name="eb_jepa", repo="facebookresearch/eb_jepa", script="examples/ac_video_jepa/main.py", data="rooms",
        needs=("torch", "torchvision", "omegaconf", "fire", "wandb"),
        command=_words("python -m examples.ac_video_jepa.main --fname {data}/mine.yaml"),
        batch=8, steps=3, refuses="rows see each other",  # its variance and covariance are those of a batch
    ),
    Case(
        name="chronos", repo="amazon-science/chronos-forecasting", script="scripts/training/train.py", folder="scripts/training",
        data="series", needs=("torch", "transformers", "gluonts", "typer", "typer_config"), env={"PYTHONPATH": "../../src"},
        command=_words("python train.py --config {data}/mine.yaml"),
        leaves="output/run-0/checkpoint-final/model.safetensors", batch=32, steps=5,
    ),
    Case(
        name="schedule_free", repo="facebookresearch/schedule_free", script="examples/mnist/main.py", folder="examples/mnist",
        data="few_digits", data_at="../data", needs=("torch", "torchvision", "schedulefree"),
        command=_words("python main.py --batch-size 250 --epochs 1"), batch=250, steps=4,  # its dropout draws by the batch
    ),
    Case(
        name="opacus", repo="pytorch/opacus", script="examples/mnist.py", folder="examples", data="few_digits", data_at="../mnist",
        needs=("torch", "torchvision", "opacus"), command=_words("python mnist.py --device cpu -n 1 -b 128 --test-batch-size 200"),
        refuses="its loader says no number of samples to a batch",  # each sample is drawn by itself, for differential privacy
    ),
    Case(
        name="pygcn", repo="tkipf/pygcn", script="pygcn/train.py", folder="pygcn", data="citations", data_at="../data/cora",
        env={"PYTHONPATH": ".."},
        command=_words("python train.py --epochs 20"), steps=20, refuses="the micro-batch isn't turned",
    ),
    Case(
        name="guided_diffusion", repo="openai/guided-diffusion", script="scripts/image_train.py", data="pictures",
        needs=("torch", "blobfile", "mpi4py"), env={"PYTHONPATH": ".", "OPENAI_LOGDIR": "out"},
        command=_words(
            "python scripts/image_train.py --data_dir {data}/train --image_size 64 --num_channels 32 --num_res_blocks 1 "
            "--attention_resolutions 16 --batch_size 8 --microbatch 8 --lr_anneal_steps 4 --save_interval 2 --log_interval 2"
        ),
        batch=8,
    ),
    Case(
        name="dfine", repo="Peterande/D-FINE", script="train.py", data="boxes_as_coco", data_at="configs/mine",
        needs=("torch", "torchvision", "faster_coco_eval", "calflops", "loguru", "tensorboard"),
        command=_words("python train.py -c configs/mine/mine.yml --device cpu --seed 0 -u train_dataloader.total_batch_size=8"),
        batch=8, steps=6,
    ),
    Case(
        name="yolov13", repo="iMoonLab/yolov13", script="ultralytics/nn/tasks.py", data="boxes", needs=("torch", "torchvision", "cv2"),
        env={"PYTHONPATH": ".", "YOLO_AUTOINSTALL": "false", "WANDB_MODE": "disabled", "YOLO_CONFIG_DIR": "{data}/config"},
        command=_words(
            "yolo detect train model=yolov13n.yaml data={data}/boxes.yaml imgsz=128 batch=16 nbs=16 epochs=1 device=cpu workers=0 "
            "plots=False"
        ),
        batch=16, steps=3,
    ),
    Case(
        name="trl_dpo", repo="huggingface/trl", script="trl/scripts/dpo.py", data="preferences", needs=("torch", "transformers", "trl"),
        command=_words(
            "python trl/scripts/dpo.py --model_name_or_path {data}/model --dataset_name {data}/set --num_train_epochs 1 "
            "--per_device_train_batch_size 24 --gradient_accumulation_steps 1 --gradient_checkpointing False --output_dir out "
            "--report_to none --use_cpu --bf16 False --save_strategy no --eval_strategy no"
        ),
        batch=24, steps=4,
    ),
    Case(
        name="trl_kto", repo="huggingface/trl", script="trl/scripts/kto.py", data="preferences", needs=("torch", "transformers", "trl"),
        command=_words(
            "python trl/scripts/kto.py --model_name_or_path {data}/model --dataset_name {data}/judged --num_train_epochs 1 "
            "--per_device_train_batch_size 24 --gradient_accumulation_steps 1 --gradient_checkpointing False --output_dir out "
            "--report_to none --use_cpu --bf16 False --save_strategy no --eval_strategy no"
        ),
        batch=24, steps=4, refuses="its rows are made from its micro-batches",
    ),
)  # fmt: skip
