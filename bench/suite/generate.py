"""Greedy answers of a Qwen2.5-0.5B-like model (a third of its layers and vocabulary), on one core, beside transformers."""
import re
import tempfile

from suite.programs import BIN, ONE_CORE, PEERS, build, own_results, run, say
from suite.rounds import in_rounds, lines
from suite.train_step import worthwhile_precisions


def bench(options):
    """Cases PRECISION/ROWS: one prompt, and 16 of 16 to 256 tokens, answered with 64 tokens each. The limit is the matrix
    products alone, as at::linear makes them."""
    python = build("bench_generate", peers=options.peers)
    new_tokens = "16" if options.quick else "64"
    with tempfile.TemporaryDirectory() as folder:
        run([f"{BIN}/bench_generate", "--folder", folder, "--make"])
        for precision in [options.precision] if options.precision else worthwhile_precisions(options.quick):
            for rows in "1", "16":
                say(f"generate, {precision}, {rows} rows")
                case = f"{precision}/{rows}"
                flags = ["--rows", rows, "--new_tokens", new_tokens, *(["--bf16"] if precision == "bf16" else [])]

                def ours():
                    found, = own_results(run([f"{BIN}/bench_generate", "--folder", folder, *flags], **ONE_CORE))
                    return {case: {"tokens/s": found["tokens"], "limit": found["limit"]}}

                def transformers():
                    said = run([f"{python}/python", f"{PEERS}/generate.py", folder, *flags], **ONE_CORE)
                    speed, = filter(None, (re.fullmatch(r"transformers: ([\d.]+) tokens/s", text) for text in said))
                    return {case: {"tokens/s": float(speed[1])}}

                # Ours first: the peer compares with its answers.
                ours()
                found = in_rounds({"ours": ours, **({"transformers": transformers} if options.peers else {})}, options.rounds)
                yield from lines("generate", case, "tokens/s", found, "tokens/s", "limit")
