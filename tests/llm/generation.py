"""distill_llm --generate as a user runs it: one prompt and many, streaming, stop strings, what generation_config.json says."""
import json
import os
import pty
import re
import shutil
import subprocess
import sys
import tempfile

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LLM = os.path.join(SOURCE, "examples", "llm")
PROGRAM = os.path.join(os.environ["DISTILL_BUILD_DIR"], "bin", "distill_llm")
QUESTION = "Who is older, Ada or Milo?"
CHAOS = ["--prompt", QUESTION, "--sampling_temperature", "5", "--top_k", "0", "--max_new_tokens", "80"]  # many tokens of nonsense


def check(right, what):
    if not right:
        sys.exit(f"FAILED: {what}")


def call(model, *arguments):
    done = subprocess.run([PROGRAM, "--generate", model, "--device", "cpu", *arguments], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True)
    return done.returncode, done.stdout, done.stderr


def answer(model, *arguments):
    code, output, log = call(model, *arguments)
    check(code == 0, f"exit code {code}: {output}{log}")
    return output


def refused(model, *arguments):
    code, output, log = call(model, *arguments)
    check(code == 2 and output == "", f"exit code {code}: {output}{log}")
    return log


def rows(text):
    return [json.loads(line) for line in text.splitlines()]


def parts(descriptor, command):
    """What `command` writes to a descriptor, as it comes."""
    process = subprocess.Popen(command, stdout=descriptor[1], stderr=subprocess.DEVNULL)
    os.close(descriptor[1])
    found = []
    while True:
        try:
            found.append(os.read(descriptor[0], 1 << 16))
        except OSError:  # of a terminal whose other end is closed
            break
        if not found[-1]:
            break
    check(process.wait() == 0, f"{command}: exit code {process.returncode}")
    return [part.decode() for part in found if part]  # no part ends within a character


def check_streaming(model):
    whole = answer(model, *CHAOS)
    command = [PROGRAM, "--generate", model, "--device", "cpu", *CHAOS]
    streamed = parts(os.pipe(), [*command, "--stream"])
    check(len(streamed) > 5 and "".join(streamed) == whole, f"{streamed} is not {whole!r} in parts")
    on_terminal = parts(pty.openpty(), command)
    check(len(on_terminal) > 5 and "".join(on_terminal).replace("\r\n", "\n") == whole, f"on a terminal: {on_terminal}")
    check(len(parts(pty.openpty(), [*command, "--stream", "false"])) <= 3, "an answer that was not to be streamed was")
    print(f"ok: {len(streamed)} parts of an answer")


def check_many(model, folder):
    with open(os.path.join(folder, "held_out.jsonl"), encoding="utf-8") as file:
        asked = rows(file.read())[:40]
    questions, answers = os.path.join(folder, "questions.jsonl"), os.path.join(folder, "answers.jsonl")
    with open(questions, "w", encoding="utf-8") as file:
        for number, row in enumerate(asked):
            # With an answer, which is left out; as a conversation without; and as a bare prompt.
            form = [row, {"messages": row["messages"][:1]}, {"prompt": row["messages"][0]["content"]}][number % 3]
            file.write(json.dumps(form) + "\n")
    check(answer(model, "--prompts", questions, "--answers", answers) == "", "answers were printed, too")
    with open(answers, encoding="utf-8") as file:
        found = rows(file.read())
    check([row["messages"][0] for row in found] == [row["messages"][0] for row in asked], "other prompts, or in another order")
    right = sum(a["messages"] == b["messages"] for a, b in zip(found, asked))
    check(right >= 36, f"only {right} of 40 answers are right")
    check(all(row["finish_reason"] == "stop" and 2 <= row["tokens"] < 16 for row in found), f"{found}")
    first, second = (row["messages"][0]["content"] for row in asked[:2])
    printed = rows(answer(model, "--prompt", first, "--prompt", second))
    check(printed == found[:2], f"{printed} is not {found[:2]}")
    alone = answer(model, "--prompt", first)
    check(alone == found[0]["messages"][1]["content"] + "\n", f"{alone!r} alone")
    cut = rows(answer(model, "--prompt", first, "--prompt", second, "--max_new_tokens", "1"))
    check([row["finish_reason"] for row in cut] == ["length"] * 2 and cut[0]["tokens"] == 1, f"{cut}")
    log = refused(model, "--prompts", os.path.join(folder, "none.jsonl"))
    check("none.jsonl" in log, log)
    empty = os.path.join(folder, "empty.jsonl")
    open(empty, "w", encoding="utf-8").close()
    check("empty.jsonl has no rows" in refused(model, "--prompts", empty), "a file without prompts is not refused")
    with open(questions, "a", encoding="utf-8") as file:
        file.write('{"messages": []}\n')
    check("questions.jsonl:41" in refused(model, "--prompts", questions), "a row that asks nothing is not named")
    print(f"ok: {right} of 40 prompts from a file")


def check_stop(model):
    whole = answer(model, *CHAOS).rstrip("\n")
    middle = len(whole) // 2
    stop = whole[middle:middle + 3]
    expected = whole[:whole.index(stop)]
    for more in ([], ["--stream"], ["--stop", "@@ nowhere @@"]):
        found = answer(model, *CHAOS, "--stop", stop, *more)
        check(found == expected + "\n", f"{found!r} before {stop!r}, with {more}")
    # Of several prompts the products round otherwise, and draws among words that are about as likely end elsewhere.
    of_two = rows(answer(model, *CHAOS, "--prompt", "Hi"))[0]["messages"][1]["content"]
    stop_of_two = of_two[len(of_two) // 2:len(of_two) // 2 + 3]
    ended = rows(answer(model, *CHAOS, "--prompt", "Hi", "--stop", stop_of_two))[0]
    check(ended["finish_reason"] == "stop" and ended["messages"][1]["content"] == of_two[:of_two.index(stop_of_two)], f"{ended}")
    print(f"ok: an answer of {len(whole)} characters ends after {len(expected)}, before {stop!r}")


def check_generation_config(model, folder):
    """Its sampling is the default, and flags come before it."""
    greedy = answer(model, "--prompt", QUESTION)
    copy = os.path.join(folder, "sampling")
    shutil.copytree(model, copy)
    path = os.path.join(copy, "generation_config.json")

    def write(**fields):
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"eos_token_id": 1023, **fields}, file)

    write(do_sample=True, temperature=5.0, top_k=0)
    code, drawn, log = call(copy, "--prompt", QUESTION, "--max_new_tokens", "80")
    check(code == 0 and drawn == answer(model, *CHAOS), f"{drawn!r} is not drawn as the file says")
    check(re.search(r"drawing tokens as .*generation_config.json says: temperature 5, top_k 0", log), log)
    check(answer(copy, "--prompt", QUESTION, "--do_sample", "false") == greedy, "--do_sample false draws")
    check(answer(copy, "--prompt", QUESTION, "--sampling_temperature", "0") == greedy, "--sampling_temperature 0 draws")
    check(answer(copy, "--prompt", QUESTION, "--top_k", "1") == greedy, "--top_k 1 takes another than the likeliest")
    write(do_sample=True, temperature="hot")
    check('generation_config.json: "temperature" must be' in refused(copy, "--prompt", QUESTION), "a bad field")
    check("none are: give --sampling_temperature" in refused(model, "--prompt", QUESTION, "--top_p", "0.9"), "top_p of no draws")
    # A penalty that leaves no token twice, in greedy answers.
    penalised = answer(model, "--prompt", QUESTION, "--repetition_penalty", "1000", "--max_new_tokens", "30")
    check(penalised != greedy, "a penalty changes nothing")
    print("ok: generation_config.json")


def main():
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, os.path.join(LLM, "generate.py"), "--out", folder], check=True,
                       stdout=subprocess.DEVNULL)
        model = os.path.join(folder, "model")
        shutil.copytree(os.path.join(LLM, "teacher"), model)
        check_many(model, folder)
        check_streaming(model)
        check_stop(model)
        check_generation_config(model, folder)


main()
