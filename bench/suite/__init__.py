"""The benchmarks of bench/run, a file each."""
