"""What scrapers of logs find in the output of a run of squad."""
import re

import job

# metric_definitions of a SageMaker estimator; the README has them as well.
DEFINITIONS = {name: rf"{name}.*=\D*(.*?)$" for name in
               ("train_runtime", "train_samples_per_second", "epoch", "f1", "exact_match")}


def check(output, end):
    """The last value that each definition finds is the final one."""
    for name, pattern in DEFINITIONS.items():
        found = re.findall(pattern, output, flags=re.MULTILINE)
        job.check(found, f"{name}: {pattern} finds nothing in\n{output[-3000:]}")
        told = re.findall(rf"^(?:eval_)?{name} = (\S+)$", output, flags=re.MULTILINE)
        job.check(told and found[-1] == told[-1] and float(told[-1]) > 0, f"{name}: {pattern} finds {found[-1]} last, but {told} are told")
        expected = end.get(name, end.get("eval_" + name))  # what is only told at the end is in no record
        job.check(expected is None or abs(float(found[-1]) - expected) <= 1e-4 * expected, f"{name}: {found[-1]}, but {expected} is recorded")
