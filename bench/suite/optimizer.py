"""AdamW over 64 million elements, on one core and on two; the limit is the memory traffic alone."""
from suite.programs import BIN, build, own_results, run
from suite.rounds import in_rounds, lines


def bench(options):
    """The program itself runs ours and LibTorch's fused kernel in turn; a round is a start of it."""
    build("bench_optimizer")
    rounds = {"ours": {}, "torch-fused": {}}

    def start():
        found = {}
        for threads in (1, 2):
            flags = ["--rounds", "3"] if options.quick else []
            for result in own_results(run([f"{BIN}/bench_optimizer", *flags], OMP_NUM_THREADS=str(threads))):
                found[result["case"]] = result
        return {case: {key: value for key, value in result.items() if key != "case"} for case, result in found.items()}

    rounds["ours"] = in_rounds({"ours": start}, options.rounds)["ours"]
    rounds["torch-fused"] = {case: {"ms": figures["fused_ms"]} for case, figures in rounds["ours"].items()}
    for case in rounds["ours"]:
        yield from lines("optimizer", case, "ms", rounds, "ms", "limit_ms")
