"""Names of transformers' example scripts, and of the script that DistilBERT was trained with: accepted where they ask for what
happens anyway, else refused with what to do."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import job

# What each program lacks where it is given no more than these names: they were all accepted then.
MISSING = {"squad": "model_name_or_path is missing", "polarity": "student_model is missing",
           "distilbert": "there is no teacher_model"}
PUBLISH = "distill_llm --publish OUTPUT_DIR --hub_location ORG/NAME"
ACCEPTED = ["--push_to_hub", "false", "--trust_remote_code", "false", "--use_fast_tokenizer", "true", "--fp16_backend", "auto",
            "--half_precision_backend", "auto", "--pad_to_max_length", "false", "--do_predict", "false"]
ACCEPTED_OF = {"squad": [], "polarity": ["--text_column", "content", "--ignore_mismatched_sizes", "false", "--do_train", "true"],
               "distilbert": ["--line_by_line", "true", "--n_epoch", "2", "--dump_path", "out", "--word_mask", "0.7", "--word_rand", "0.2",
                              "--mlm_mask_prop", "0.2", "--restrict_ce_to_mask", "false", "--alpha_clm", "0.0", "--do_train", "true", "--force", "true", "--student_type", "distilbert", "--teacher_type", "bert"]}
REFUSED = {"squad": [], "polarity": [("task_name", "sst2", "text_columns, label_column and labels"),
                                     ("max_predict_samples", "8", "max_eval_samples"),
                                     ("ignore_mismatched_sizes", "true", "take the model that it was trained from")],
           "distilbert": [("validation_split_percentage", "5", "validation_split: 0.05 in place of 5"),
                          ("line_by_line", "false", "a row is a text of its own"), ("word_keep", "0.1", "set these"),
                          ("restrict_ce_to_mask", "true", "of all tokens"), ("data_file", "x.pickle", "dataset_name names rows"),
                          ("mlm_smoothing", "0.7", "chosen alike"), ("n_gpu", "8", "distillrun -np")]}
REFUSED_BY_ALL = [("push_to_hub", "true", PUBLISH), ("hub_model_id", "me/mine", PUBLISH),
                  ("do_predict", "true", "it answers no rows without labels"), ("trust_remote_code", "true", "no code of theirs runs")]


def says(program, arguments, expected):
    code, output = job.run(arguments, program=program, timeout=60)
    said = [line for line in output.splitlines() if line.startswith("error: ")]
    job.check(code == 2 and len(said) == 1 and expected in said[0], f"{program} {arguments}: exit code {code}, wanted {expected}\n{output}")


def main():
    for program, missing in MISSING.items():
        says(program, ACCEPTED + ACCEPTED_OF[program], missing)
        for name, value, what in REFUSED_BY_ALL + REFUSED[program]:
            says(program, [f"--{name}", value], what)
        print(f"ok: {program}")
    says("brain2text", ["--predict", "val"], "--trained_model is missing: give it on the command line")


main()
