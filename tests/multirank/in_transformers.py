"""A student that distill_llm has trained opens with transformers' Auto classes, and answers there as it does here."""
import os
import sys

import torch
import transformers

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import job

PROMPTS = ("Where does Ada live?", "What is the job of Milo?", "Which is larger, 47 or 74?", "count the stones")
NEW_TOKENS = 12
TEACHER = os.path.join(job.SOURCE, "examples", "llm", "teacher")


def train(folder):
    """A few gentle steps from the example's teacher, so that the student's answers say something."""
    job.make_chat(f"{folder}/chat.jsonl", rows=40)
    job.must_run(["--config_file", job.config(
        folder, dataset_name=f"{folder}/chat.jsonl", teacher_model=TEACHER, student_model=TEACHER,
        output_dir=f"{folder}/out", per_device_train_batch_size=4, max_steps=3, learning_rate=1e-4)], ranks=2)
    return f"{folder}/out"


def main():
    torch.set_num_threads(1)
    out = train(job.workspace())
    tokenizer = transformers.AutoTokenizer.from_pretrained(out)
    model, info = transformers.AutoModelForCausalLM.from_pretrained(out, output_loading_info=True)
    job.check(not any(info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys")), info)
    for prompt in PROMPTS:
        inputs = tokenizer.apply_chat_template([{"role": "user", "content": prompt}], add_generation_prompt=True,
                                               return_tensors="pt", return_dict=True)
        ids = model.generate(**inputs, max_new_tokens=NEW_TOKENS, do_sample=False)[0, inputs["input_ids"].shape[1]:]
        theirs = tokenizer.decode(ids, skip_special_tokens=True)
        ours = job.must_run(["--generate", out, "--prompt", prompt, "--max-new-tokens", str(NEW_TOKENS), "--device", "cpu"])
        job.check(tokenizer(ours.rstrip("\n"))["input_ids"] == tokenizer(theirs)["input_ids"],
                  f"'{prompt}': transformers answers {theirs!r}, distill_llm {ours!r}")
        print(f"ok: '{prompt}' -> {theirs!r}")


main()
