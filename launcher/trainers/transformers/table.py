"""Says for every argument of the transformers trainers what a trial does with it, and why that hides no memory need. Standard library only.

A test holds this against the installed version: an argument that transformers adds must be entered here, one that it drops must leave.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class TreatmentKind(StrEnum):
    """What becomes of an argument."""

    RUNS = "runs"  # in the trial as in the full run, with the value that was asked
    HARMLESS = "harmless"  # can't touch the device's memory, because
    ADDED = "added"  # the trial does something else; the need of what was asked is added, so
    REFUSED = "refused"  # as an argument; ``why`` is the cure


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One argument."""

    kind: TreatmentKind
    why: str = ""


def _all(kind: TreatmentKind, why: str, names: str) -> dict[str, Entry]:
    return dict.fromkeys(names.split(), Entry(kind=kind, why=why))


def _each(kind: TreatmentKind, **reasons: str) -> dict[str, Entry]:
    return {name: Entry(kind=kind, why=why) for name, why in reasons.items()}


_OPTIMIZER = _all(
    TreatmentKind.RUNS,
    "the optimizer and its schedule are the run's own; the schedule keeps the length that it has in the run",
    "learning_rate lr_scheduler_type lr_scheduler_kwargs warmup_steps optim_args optim_target_modules weight_decay adam_beta1 adam_beta2 "
    "adam_epsilon max_grad_norm average_tokens_across_devices",
)
_FORWARD = _all(
    TreatmentKind.RUNS,
    "forward, loss and backward are the run's own",
    "label_smoothing_factor neftune_noise_alpha torch_compile torch_compile_backend torch_compile_mode use_liger_kernel "
    "liger_kernel_config use_cache tf32 full_determinism seed data_seed torch_empty_cache_steps "
    "attn_implementation dtype lora_alpha lora_dropout "
    "lora_target_modules freeze_encoder debug include_num_input_tokens_seen",
)
_LOADING = _all(
    TreatmentKind.RUNS,
    "loaders, their workers and what these hold ahead are the run's own; on a CPU each worker is metered as well",
    "dataloader_num_workers dataloader_pin_memory dataloader_persistent_workers dataloader_prefetch_factor "
    "dataloader_multiprocessing_context dataloader_in_order accelerator_config",
)
_DATA = _all(
    TreatmentKind.RUNS,
    "the whole data is read, checked and tokenized as in the run, within the budget",
    "validation_data validation_fraction text_column prompt_column audio_column on_bad_data resample language task normalize packing",
)
_EVALUATION = _all(
    TreatmentKind.RUNS,
    "the trial validates beside everything that training holds, and once more at its end as the run does (half precision in all of it "
    "is refused for speech, whose features stay float32)",
    "bf16_full_eval fp16_full_eval prediction_loss_only eval_use_gather_object include_for_metrics eval_accumulation_steps "
    "predict_with_generate generation_num_beams generation_config metric_for_best_model greater_is_better eval_on_start",
)
_SAVING = _all(
    TreatmentKind.RUNS,
    "checkpoints are really written, into the trial's own folder; a card holds nothing of them",
    "save_only_model save_total_limit save_on_each_node enable_jit_checkpoint",
)
_LOGGING = _all(
    TreatmentKind.RUNS,
    "it logs as the run does, after every step, and shows its progress",
    "logging_strategy logging_first_step logging_nan_inf_filter log_level log_level_replica log_on_each_node disable_tqdm "
    "skip_memory_metrics",
)
_REPLACED = {
    **_each(
        TreatmentKind.HARMLESS,
        output_dir="the trial writes the same into a folder of its own",
        num_train_epochs="how long a run lasts; a trial goes over the border between epochs twice, where loaders and their workers start",
        max_steps="how long a run lasts; the schedule keeps that length, the trial ends it early",
        train_sampling_strategy="which samples come: the trial takes the longest, the shortest and odd batches, and holds the order of the "
        "whole set beside (group_by_length of speech and batch_rebalance are refused)",
        eval_strategy="the trial validates in the middle of training whatever it says: beside optimizer state and micro-batches",
        eval_steps="when it is validated; the trial does so after a step of longest batches",
        eval_delay="when it is validated first",
        save_strategy="checkpoints are written where they are asked, at the step of an evaluation; on a card with trial.resume=false none "
        "is: tensors go to the host one by one",
        save_steps="when checkpoints are written; in a trial at the step of an evaluation, the worst moment",
        load_best_model_at_end="on a CPU the best weights are really loaded beside everything else; on a card they are copied from the "
        "host into the weights that are there",
        logging_steps="when it is logged; a trial logs after every step",
        report_to="on a CPU only none and tensorboard are accepted, and run; elsewhere reporting takes host memory, and is not started",
        run_name="a name, for what report_to names",
        project="a name, for what report_to names",
        trackio_space_id="a name, for what report_to names",
        trackio_bucket_id="a name, for what report_to names",
        trackio_static_space_id="a name, for what report_to names",
        push_to_hub="refused where the budget is the host's memory; elsewhere uploading reads files on the host",
        hub_token="nothing is uploaded from a trial; see push_to_hub",
        hub_private_repo="nothing is uploaded from a trial; see push_to_hub",
        hub_model_id="nothing is uploaded from a trial; see push_to_hub",
        hub_strategy="nothing is uploaded from a trial; see push_to_hub",
        hub_always_push="nothing is uploaded from a trial; see push_to_hub",
        hub_revision="nothing is uploaded from a trial; see push_to_hub",
        length_column_name="a column of datasets.Dataset, which the built-in trainers don't use",
        dataloader_drop_last="as asked; without it the trial also trains and evaluates a smaller last batch",
        ignore_data_skip="what a resumed run passes over is never loaded onto the device",
        ddp_find_unused_parameters="as asked, where several ranks train together",
        ddp_bucket_cap_mb="as asked, where several ranks train together",
        ddp_broadcast_buffers="as asked, where several ranks train together",
        ddp_static_graph="as asked, where several ranks train together",
        ddp_backend="as asked, where several ranks train together",
        ddp_timeout="a trial waits ten minutes for a rank, so that one that hangs ends it",
    ),
    **_each(
        TreatmentKind.ADDED,
        gradient_accumulation_steps="two micro-batches are really accumulated, and copies of inputs stand for the rest of them",
    ),
}
_REFUSED = _each(
    TreatmentKind.REFUSED,
    per_device_train_batch_size="It is the ladder's: set ask.micro_batch (samples per device and forward pass).",
    per_device_eval_batch_size="It is the ladder's: set ask.val_micro_batch.",
    activation_checkpointing="It is the ladder's: set ask.checkpointing.",
    activation_checkpointing_kwargs="Set ask.checkpointing; it is non-reentrant.",
    gradient_checkpointing="It is the ladder's: set ask.checkpointing.",
    checkpointing_share="Set ask.checkpointing to it.",
    gradient_checkpointing_kwargs="Set ask.checkpointing; it is non-reentrant.",
    bf16="Set ask.precision=bf16.",
    fp16="Set ask.precision=fp16.",
    optim="Set ask.optimizer.",
    generation_max_length="It is the ladder's: set ask.generation_length.",
    label_length="It is the ladder's: set ask.label_length.",
    audio_seconds="It is the ladder's: set ask.audio_seconds.",
    sequence_length="It is the ladder's: set ask.sequence_length.",
    lora_rank="It is the ladder's: set ask.lora.",
    loss_chunks="It is the ladder's: set ask.loss_chunks.",
    freeze="It is the ladder's: set ask.freeze.",
    offload="It is the ladder's: set ask.offload.",
    eval_keeps="It is the ladder's: set ask.val_keeps.",
    batch_eval_metrics="Set ask.val_keeps=sums.",
    eval_do_concat_batches="The built-in trainers' metrics want one array; set ask.val_keeps=sums where joining takes too much.",
    model_name_or_path="It is the ladder's: set ask.model.",
    data="Set data= (top level).",
    leave_out_longer="autofit sets it where ask.label_length has been lowered.",
    use_cpu="Set device=cpu.",
    local_rank="One process is covered.",
    deepspeed="It is the ladder's: set ask.sharding=zero2 or zero3. A configuration of your own is for a script of yours (autofit run).",
    fsdp="It is the ladder's: set ask.sharding.",
    fsdp_config="It is the ladder's: set ask.sharding.",
    parallelism_config="Models cut in other ways than ask.sharding's are not covered.",
    auto_find_batch_size="It shrinks the batch without saying so, and the effective batch with it; the ladder keeps that.",
    do_train="autofit trains.",
    do_eval="The built-in trainers evaluate at the end; set eval_strategy for more.",
    do_predict="The built-in trainers don't predict.",
    label_names="The built-in trainer knows them.",
    remove_unused_columns="The built-in trainer knows its columns.",
    sortish_sampler="The built-in trainer doesn't use it; set train_sampling_strategy.",
)
_RESUMED = _all(
    TreatmentKind.RUNS,
    "the checkpoint is really loaded, weights and optimizer state; the trial then counts its steps from 0",
    "resume_from_checkpoint restore_callback_states_from_checkpoint",
)

TABLE: Mapping[str, Entry] = {
    **_OPTIMIZER, **_FORWARD, **_LOADING, **_DATA, **_EVALUATION, **_SAVING, **_LOGGING, **_REPLACED, **_RESUMED, **_REFUSED,
}  # fmt: skip
"""Argument -> what becomes of it. Those that a wheel turns are refused as arguments, and run at the rung's value."""

OLDER: Mapping[str, Entry] = {
    **_all(TreatmentKind.RUNS, "the optimizer and its schedule are the run's own", "warmup_ratio"),
    **_all(
        TreatmentKind.RUNS, "forward, loss and backward are the run's own", "fp16_backend half_precision_backend fp16_opt_level torchdynamo"
    ),
    **_all(TreatmentKind.HARMLESS, "which samples come, as in train_sampling_strategy", "group_by_length"),
    **_all(
        TreatmentKind.HARMLESS,
        "words, names and places: the trial writes into a folder of its own and uploads nothing",
        "logging_dir overwrite_output_dir save_safetensors push_to_hub_model_id push_to_hub_organization push_to_hub_token "
        "include_tokens_per_second",
    ),
    **_each(
        TreatmentKind.REFUSED,
        no_cuda="Set device=cpu.",
        use_mps_device="Set device=cuda or device=cpu.",
        per_gpu_train_batch_size="Set ask.micro_batch.",
        per_gpu_eval_batch_size="Set ask.val_micro_batch.",
        adafactor="Set ask.optimizer=adafactor.",
        evaluation_strategy="It is eval_strategy since transformers 4.41.",
        use_legacy_prediction_loop="A trial knows only the other evaluation loop.",
        include_inputs_for_metrics="Set include_for_metrics.",
        past_index="The built-in trainers keep no past between batches.",
        jit_mode_eval="A trial doesn't trace models.",
        dispatch_batches="Set accelerator_config.",
        split_batches="Set accelerator_config.",
    ),
}
"""As ``TABLE``, for arguments that transformers had from 4.50 on and has no more."""
