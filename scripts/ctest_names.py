#!/usr/bin/env python3
"""Prints the ctest names of a build folder that lie under the given test folders, one a line.

    ctest_names.py BUILD unit/config unit/text ...
"""
import json
import subprocess
import sys

build, areas = sys.argv[1], sys.argv[2:]
listing = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1"], capture_output=True, check=True)
for test in json.loads(listing.stdout)["tests"]:
    where = next((p["value"] for p in test.get("properties", []) if p["name"] == "WORKING_DIRECTORY"), "")
    if any(f"/tests/{area}" in where for area in areas):
        print(test["name"])
