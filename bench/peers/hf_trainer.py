"""What the peers by transformers' Trainer share: the run of a job's steps (recipe_job.py), with their losses and times."""
import os
import time

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import transformers
from recipe_job import tell


class Timed(transformers.TrainerCallback):
    def __init__(self):
        self.ends = []

    def on_step_end(self, args, state, control, **kwargs):
        self.ends.append(time.perf_counter())


class WithLosses(transformers.Trainer):
    """Keeps each step's loss, which the log rounds."""

    def compute_loss(self, *arguments, **keywords):
        loss = super().compute_loss(*arguments, **keywords)
        self.losses = [*getattr(self, "losses", []), loss.item()]
        return loss


def train(options, job, model, dataset, collate, trainer_class=WithLosses, **keywords):
    """The job's steps with the arguments that users give, but that nothing is written; then the line of results."""
    arguments = transformers.TrainingArguments(
        output_dir=os.path.join(options.job, "peer"), use_cpu=True, bf16=options.bf16, max_steps=options.steps,
        per_device_train_batch_size=job["rows"], learning_rate=job["learning_rate"], lr_scheduler_type="linear", warmup_steps=0,
        weight_decay=0.01, max_grad_norm=1.0, logging_strategy="no", save_strategy="no", report_to=[], disable_tqdm=True,
        dataloader_num_workers=0, remove_unused_columns=False, seed=0)
    timed = Timed()
    trainer = trainer_class(model=model, args=arguments, train_dataset=dataset, data_collator=collate, callbacks=[timed], **keywords)
    trainer.train()
    tell(trainer.losses, timed.ends)
