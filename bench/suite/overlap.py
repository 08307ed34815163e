"""How much longer a backward pass takes when its gradients are summed over ranks meanwhile."""
import subprocess

from suite.programs import BIN, ONE_CORE, REPO, build, distillrun, own_results, run, say
from suite.rounds import line


def of_one(where, command, **environment):
    result, = own_results(run(command, **ONE_CORE, **environment))
    backend, ranks, compression = result["case"].split("/")
    case = f"{where}/{ranks}/{compression}"
    # At best communication is free, or the longer of the two is what takes the time.
    limit = max(result["backward_ms"], result["communication_ms"])
    for name, key, bound in (("backward+communication", "backward_with_ms", limit),
                             ("backward", "backward_ms", result["backward_ms"]),
                             ("communication", "communication_ms", result["communication_ms"]),
                             ("step+communication", "step_with_ms", result["step_ms"])):
        yield line("overlap", f"{case}/{name}", "ms", [result[key]], [bound])
    say(f"{case} over {backend}: {result['ratio'] - 1:+.1%} for the backward pass, by the median of the rounds' ratios, "
        f"{result['step_with_ms'] / result['step_ms'] - 1:+.1%} for the step")


def bench(options):
    """The program itself takes turns with and without communication, so often as there are rounds, and at least three
    times."""
    build("bench_overlap")
    program = [f"{BIN}/bench_overlap", "--rounds", str(max(3, options.rounds))]
    say(f"a backward pass with and without its communication, {options.ranks} ranks of one host")
    yield from of_one("shm", distillrun(options.ranks, *program))
    if subprocess.run([f"{REPO}/bench/on_hosts.py", "1", "4gbit", "true"]).returncode == 77:
        return
    for compression, words in ("none", "used"), ("none", "all"), ("bf16", "all"):
        say(f"the same on {options.ranks} emulated hosts at 4 Gbit/s, gradient_compression {compression}, gradients of "
            f"{words} words")
        command = [f"{REPO}/bench/on_hosts.py", str(options.ranks), "4gbit", *program, "--gradient_compression", compression,
                   *(["--dense"] if words == "all" else [])]
        yield from of_one("net-4gbit" if words == "used" else "net-4gbit-dense", command)
