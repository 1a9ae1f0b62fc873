#!/usr/bin/env python3
"""Runs one fuzz target from its seeds, as ctest does. Knows libFuzzer's output, nothing of the targets.

    run_fuzzer.py BINARY SEEDS COVERAGE [SECONDS]

Fails on a finding (the input is kept in crashes/ beside the binary's build folder), and when the seeds alone reach
fewer than COVERAGE places of the code: then they no longer get past the entry checks, and the fuzzer only knocks at
the door. Runs repeat: the fuzzer's random numbers are fixed unless FUZZ_SEED says otherwise (0: new ones).
FUZZ_SECONDS (default 5) is how long it runs.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile


def main() -> int:
    binary, seeds, floor = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), int(sys.argv[3])
    seconds = os.environ.get("FUZZ_SECONDS", "5")
    seed = os.environ.get("FUZZ_SEED", "1")
    if not seeds.is_dir() or not any(seeds.iterdir()):
        print(f"{binary.name}: no seeds in {seeds}; put at least one valid input there")
        return 1
    crashes = binary.parent / "crashes"
    crashes.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as corpus:
        command = [str(binary), f"-max_total_time={seconds}", f"-seed={seed}", "-timeout=20", "-rss_limit_mb=3000",
                   # Weighing inputs by rare features costs more than all runs together in so few seconds.
                   "-entropic=0", "-print_funcs=0", "-print_final_stats=1",
                   f"-artifact_prefix={crashes}/{binary.name}-", corpus, str(seeds)]
        run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    if run.returncode != 0:
        print(run.stdout[-20000:])
        print(f"{binary.name}: exit status {run.returncode}; repeat with: {binary} {crashes}/{binary.name}-*")
        return 1

    seeded = re.search(r"INITED\s+cov: (\d+)", run.stdout)
    reached = re.findall(r"\bcov: (\d+)", run.stdout)
    executed = re.search(r"stat::number_of_executed_units: (\d+)", run.stdout)
    if not seeded or not executed:
        print(run.stdout[-5000:])
        print(f"{binary.name}: no coverage in its output; was it built with -fsanitize=fuzzer?")
        return 1
    print(f"{binary.name}: {seeded[1]} places from {len(list(seeds.iterdir()))} seeds, {reached[-1]} after "
          f"{executed[1]} inputs in {seconds} s")
    if int(seeded[1]) < floor:
        print(f"{binary.name}: its seeds reach {seeded[1]} places, fewer than {floor}; they are no longer valid inputs")
        return 1
    return 0


sys.exit(main())
