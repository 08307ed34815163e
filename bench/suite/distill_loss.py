"""Head and loss, one core, or a GPU, beside whole logits in plain PyTorch, TRL's chunks and Liger's."""
import re
import subprocess

from suite.programs import BIN, ONE_CORE, PEERS, build, own_results, run, say
from suite.rounds import in_rounds, line, lines
from suite.train_step import worthwhile_precisions


def cases(options):
    """Precision and flags: on a GPU a large model's head, for which other programs publish their figures."""
    if options.device == "cuda":
        yield "bf16", ["--device", "cuda", "--bf16", "--tokens", "8192", "--vocabulary", "128256", "--student", "4096",
                       "--teacher", "4096"]
        return
    for precision in [options.precision] if options.precision else worthwhile_precisions(options.quick):
        yield precision, ["--tokens", "256" if options.quick else "1024", *(["--bf16"] if precision == "bf16" else [])]


def peer(python, name, flags, case):
    said = run([f"{python}/python", f"{PEERS}/distill_loss.py", name, *flags], **ONE_CORE)
    return {case: {"ms": float(next(filter(None, (re.search(rf"{name}: ([\d.]+) ms", text) for text in said)))[1])}}


def peers_for(python):
    names = ["whole-logits", "trl"]
    if subprocess.run([f"{python}/python", "-c", "import liger_kernel"], capture_output=True).returncode == 0:
        return [*names, "liger"]
    say("without Liger: scripts/setup --peers could not install it")
    return names


def bench(options):
    """TRL and Liger compute the divergence alone, whole logits and ours the cross-entropy too. The limit is the head's
    matrix products in the chunks that suit them best, and one pass over the logits."""
    python = build("bench_distill_loss", peers=options.peers)
    chunks = ["--chunk_tokens", "1024"] if options.device == "cuda" else []
    for precision, flags in cases(options):
        say(f"head and loss, {precision}")
        case = f"{options.device}/{precision}/{flags[flags.index('--tokens') + 1]}"
        # A repetition a round is enough: rounds repeat. Memory is the same in all of them.
        repeated, memory = ["--repetitions", "1"] if options.rounds > 1 else [], {}

        def ours():
            without = ["--without_memory"] if memory else []
            found, = own_results(run([f"{BIN}/bench_distill_loss", *flags, *chunks, *repeated, *without], **ONE_CORE))
            memory.update(found["memory_gib"])
            return {case: {"ms": found["ms"], "limit_ms": found["limit_ms"], "limit_gib": found["limit_memory_gib"]}}

        contestants = {"ours": ours}
        for name in peers_for(python) if options.peers else ():
            contestants[name] = lambda name=name: peer(python, name, [*flags, *repeated], case)
        found = in_rounds(contestants, options.rounds)
        yield from lines("distill_loss", case, "ms", found, "ms", "limit_ms")
        for tokens, gib in memory.items():
            yield line("distill_loss", f"{options.device}/{precision}/{tokens}/memory", "GiB", [gib],
                       found["ours"][case]["limit_gib"])
