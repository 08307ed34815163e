"""distill_tune's ranks on two emulated hosts, two on each: shared memory and the network between the hosts are measured,
and a later run takes the table from rank 0's file. Skipped, with the reason, where network namespaces are not allowed."""
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import hosts


def run(program, path, port, rank0_environment):
    """Every rank's exit code and output."""
    processes = []
    for rank in range(4):
        environment = {"DISTILL_RANK": str(rank), "DISTILL_WORLD_SIZE": "4", "DISTILL_LOCAL_RANK": str(rank % 2),
                       "DISTILL_LOCAL_SIZE": "2", "DISTILL_RENDEZVOUS": f"{hosts.address(0)}:{port}",
                       "DISTILL_JOB_SECRET": "of the test", **(rank0_environment if rank == 0 else {})}
        processes.append(hosts.start(rank // 2, [program, path], environment))
    try:
        return [(process.communicate(timeout=60)[0], process.returncode) for process in processes]
    finally:
        for process in processes:
            process.kill()


def expect(holds, what, said):
    if not holds:
        sys.exit(f"FAILED: {what}:\n" + "\n".join(text for text, _ in said))


def check(program):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "tuning.yaml")
        said = run(program, path, 29521, {})
        expect(all(code == 0 for _, code in said), "measuring failed", said)
        for part in ("2 hosts x 2 ranks", "4 ranks over shm+fabric", "4 ranks over fabric", "4 ranks on 2 host(s):",
                     "  hierarchical, ", f"written to {path}"):
            expect(part in said[0][0], f"rank 0 does not say '{part}'", said)
        with open(path, encoding="utf-8") as file:
            table = file.read()
        expect(table.count("latency_us: ") == 2, f"this is no table: {table}", said)
        # A network so fast that nothing is worth saving bytes: rank 0's file alone decides for all.
        with open(path, "w", encoding="utf-8") as file:
            file.write("shared_memory: {latency_us: 1, gap_us: 1, gigabytes_per_second: 1000000}\n"
                       "network: {latency_us: 1000, gap_us: 900, gigabytes_per_second: 1000000}\n"
                       "reduction_gigabytes_per_second: 1000000\n")
        said = run(program, os.path.join(folder, "again.yaml"), 29522, {"DISTILL_COMM_TUNING_FILE": path})
        expect(all(code == 0 for _, code in said), "a run with the table failed", said)
        expect("all-reduce over the fabric: hierarchical, and in its lanes recursive_doubling (comm_algorithm auto)" in said[0][0],
               "the table was not taken", said)


hosts.enter()
hosts.up(2)
check(os.path.abspath(sys.argv[1]))
