"""examples/recipe, by the recipe of docs/extending.md: config files, wrong ones, --plan, --dry_run, and runs that are repeated."""
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import job

PROGRAM = "own_recipe"


def expect(name, arguments, code, *parts, ranks=2, **environment):
    got, output = job.run(arguments, ranks=ranks, program=PROGRAM, timeout=60, **environment)
    job.check(got == code, f"{name}: exit code {got}\n{output}")
    for part in parts:
        job.check(re.search(part, output, flags=re.M), f"{name}: nothing like '{part}' in\n{output}")
    said = [line for line in output.splitlines() if line.startswith("error: ")]
    job.check(len(said) == (1 if code else 0), f"{name}: {len(said)} errors in\n{output}")
    print(f"ok: {name}")
    return output


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def config_files(folder):
    points = write(f"{folder}/points.txt", "".join(f"{i / 16} {(i / 16) ** 2}\n" for i in range(16)))
    good = write(f"{folder}/good.yaml", f"points: {points}\nlearning_rate: 0.05\nnum_train_epochs: 2\nhidden: 8\n"
                 f"per_device_train_batch_size: 2\nsave_steps: 3\ndevice: cpu\n")
    wrong = write(f"{folder}/wrong.yaml", f"points: {points}\nhiden: 8\n")
    expect("help names the recipe's options and the trainer's", ["--help"], 0, "--points", "--learning_rate", "--dry_run", ranks=1)
    expect("an unknown key", ["--config_file", wrong, "--output_dir", f"{folder}/none"], 2,
           r"wrong\.yaml:2: unknown key 'hiden'; did you mean 'hidden'\?")
    expect("what is missing", ["--output_dir", f"{folder}/none"], 2, "points is missing")
    expect("a flag in a file", ["--config_file", write(f"{folder}/flag.yaml", "dry_run: true\n")], 2, "stands on the command line alone")
    return good


def plan(folder, good):
    output = expect("a plan", ["--plan", "--world_size", "64", "--config_file", good, "--output_dir", f"{folder}/none"], 0)
    job.check(output == "464 bytes a rank: 25 weights, 16 units of a batch\n", f"--plan on two ranks printed\n{output}")
    job.check(not os.path.exists(f"{folder}/none"), "--plan wrote")


def dry_run(folder, good):
    """The loss that it prints is that of the same small job."""
    place = f"{folder}/tmp"
    os.makedirs(place)
    arguments = ["--config_file", good, "--output_dir", f"{folder}/dry"]
    for name in "--dry_run", "--dry-run":
        output = expect(f"a dry run ({name})", [name, *arguments], 0, "dry run of own_recipe: this job runs",
                        "changed   .*max_points 0 -> 4", rf"written   nothing in {folder}/dry; .*: metrics\.jsonl, model\.safetensors", TMPDIR=place)
        job.check(os.listdir(place) == [], f"{name} left {os.listdir(place)}")
        job.check(not os.path.exists(f"{folder}/dry"), f"{name} wrote to output_dir")
    printed = re.search(r"done      one step: loss ([\d.e-]+), on 2 ranks and cpu", output)
    job.check(printed, output)
    job.must_run([*arguments[:2], "--output_dir", f"{folder}/small", "--max_points", "4", "--max_steps", "1"], ranks=2, program=PROGRAM)
    loss = job.records(f"{folder}/small")[0]["loss"]
    job.check(abs(loss - float(printed[1])) < 1e-5 * loss, f"the dry run's loss was {printed[1]}, the small job's {loss}")
    expect("a dry run with a plan", ["--dry_run", "--plan", *arguments], 2, "two things to do")


def repeated(folder, good):
    out = f"{folder}/out"
    arguments = ["--config_file", good, "--output_dir", out]
    expect("a run", arguments, 0)
    before = job.records(out)
    job.check(len(before) == 8 and before[-1]["loss"] < before[0]["loss"], f"losses: {before}")
    expect("the same run again", arguments, 2, "checkpoint-8 is this same run's, by every option: to resume it")
    expect("a dry run into a folder that is taken", [*arguments, "--dry_run", "--hidden", "9"], 2, "output_dir", "checkpoint-8")
    expect("a run that reads what it may replace", [*arguments, "--overwrite_output_dir", "--points", f"{out}/model.safetensors"], 2,
           "points: .*model.safetensors is in output_dir")
    expect("a run by what another has kept", ["--config_file", f"{out}/resolved_config.yaml", "--output_dir", f"{folder}/again"], 0)
    again = job.records(f"{folder}/again")
    job.check([record["loss"] for record in again] == [record["loss"] for record in before], "the kept config gives other losses")


def bad_input(folder, good):
    points = write(f"{folder}/bad.txt", "0 0\n1 one\n")
    arguments = ["--config_file", good, "--output_dir", f"{folder}/bad", "--points", points]
    for extra in [], ["--dry_run"]:
        expect(f"a bad line {extra}", [*arguments, *extra], 2, r"^error: points: .*bad\.txt, line 2: '1 one' is no point")
    expect("no file", [*arguments, "--points", f"{folder}/gone.txt"], 2, r"gone\.txt")
    job.check(not os.path.exists(f"{folder}/bad"), "a run without data wrote")


def main():
    folder = job.workspace()
    good = config_files(folder)
    plan(folder, good)
    dry_run(folder, good)
    repeated(folder, good)
    bad_input(folder, good)


main()
