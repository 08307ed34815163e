"""Whole steps of training, beside transformers with DDP and TRL, whose losses are compared first."""
import re
import tempfile

from suite.programs import BIN, LOOPBACK, ONE_CORE, PEERS, build, distillrun, own_results, run, say, torchrun
from suite.rounds import in_rounds, lines

# Of bench_train_step: {recipe: {name of the peer: its command}}; the first one's losses are compared with ours.
RECIPES = {"distilbert": {"transformers": ["hf_distill_bert.py"]},
           "llm": {"transformers-full": ["hf_distill_llm.py", "full"], "trl": ["hf_distill_llm.py", "trl"]},
           "llm_qwen3": {"transformers-full": ["hf_distill_llm.py", "full", "--family", "qwen3"],
                         "trl": ["hf_distill_llm.py", "trl", "--family", "qwen3"]},
           "llm_gemma2": {"transformers-full": ["hf_distill_llm.py", "full", "--family", "gemma2"]}}


def worthwhile_precisions(quick):
    """bf16 first; without instructions for it a CPU is 10 to 80 times slower at it than in float32, ours and peers alike."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        if re.search(r"\b(amx_bf16|avx512_bf16)\b", file.read()):
            return ["bf16"] if quick else ["bf16", "fp32"]
    say("bf16 is left out: this CPU has no instructions for it (--precision bf16 runs it all the same)")
    return ["fp32"]


def start_peer(python, ranks, command, *flags):
    return run(torchrun(python, ranks, f"{PEERS}/{command[0]}", *command[1:], *flags), **LOOPBACK)


def compare_losses(python, recipe, ranks):
    """Both train from the peer's first weights on its inputs, in float32; a difference in the losses ends the benchmark."""
    say(f"{recipe}: the same losses as transformers + DDP, {ranks} rank(s)?")
    with tempfile.TemporaryDirectory() as folder:
        start_peer(python, ranks, next(iter(RECIPES[recipe].values())), "--steps", "3", "--save", folder)
        run(distillrun(ranks, f"{BIN}/bench_train_step", recipe, "--compare", folder), **ONE_CORE)


def time_ours(recipe, ranks, flags):
    found, = own_results(run(distillrun(ranks, f"{BIN}/bench_train_step", recipe, *flags), **ONE_CORE))
    if found["planned_memory_gib"] > 0:
        planned = found["planned_memory_gib"]
        say(f"planned {planned:.2f} GiB a rank, measured {found['memory_gib']:.2f} ({planned / found['memory_gib'] - 1:+.0%})")
    return {"speed": {"rate": found["tokens_per_second"], "limit_rate": found["limit_tokens_per_second"]},
            "memory": {"gib": found["memory_gib"], "limit_gib": found["limit_memory_gib"]},
            "step": {"ms": found["step_ms"], "limit_ms": found["products_ms"]}}


def time_peer(python, ranks, command, flags):
    said = start_peer(python, ranks, command, *flags)
    match = next(filter(None, (re.search(r"([\d.]+) tokens/s, peak RSS ([\d.]+) GiB", text) for text in said)))
    return {"speed": {"rate": float(match[1])}, "memory": {"gib": float(match[2])}}


def steps_of(options):
    """Flags of ours and of the peers. In rounds one timed step is enough, behind one that is not; ours times a step when
    the next one begins."""
    if options.rounds > 1:
        return ["--steps", "3"], ["--steps", "2"]
    return (["--steps", "5"], ["--steps", "5"]) if options.quick else ([], [])


def in_precision(options, python, recipe, precision, ranks):
    own_flags, peer_flags = ([*flags, *(["--bf16"] if precision == "bf16" else [])] for flags in steps_of(options))
    own_flags.append("--products")
    say(f"{recipe}, {precision}, {ranks} rank(s)")
    contestants = {"ours": lambda: time_ours(recipe, ranks, own_flags)}
    for name, command in RECIPES[recipe].items() if options.peers else ():
        contestants[name] = lambda command=command: time_peer(python, ranks, command, peer_flags)
    found = in_rounds(contestants, options.rounds)
    case = f"{recipe}/{precision}/{ranks}"
    for kind, name, unit, figure in (("speed", case, "tokens/s", "rate"), ("memory", f"{case}/memory", "GiB", "gib"),
                                     ("step", f"{case}/step", "ms", "ms")):
        for result in lines("train_step", kind, unit, found, figure, f"limit_{figure}"):
            yield {**result, "case": name}


def bench(options):
    """Cases RECIPE/PRECISION/RANKS. The limit is the best rate of products of 4096 x 4096 matrices; of memory, what
    weights, gradients and moments take; of a step's time, its own matrix products (heads' in the loss's chunks) and one pass over both models'
    logits, by themselves."""
    python = build("bench_train_step", peers=options.peers)
    for recipe in sorted(name for name in RECIPES if name.startswith(options.recipe or "")):
        if options.peers:
            compare_losses(python, recipe, options.ranks)
        for precision in [options.precision] if options.precision else worthwhile_precisions(options.quick):
            for ranks in range(1, options.ranks + 1):
                yield from in_precision(options, python, recipe, precision, ranks)
