#!/usr/bin/env python3
"""Prints "PASSED FAILED" of a JUnit file (ctest's or pytest's). Skipped tests count as neither."""
import sys
import xml.etree.ElementTree as xml

passed = failed = 0
for case in xml.parse(sys.argv[1]).iter("testcase"):
    if case.find("failure") is not None or case.find("error") is not None or case.get("status") == "fail":
        failed += 1
    elif case.find("skipped") is None and case.get("status") not in ("notrun", "disabled"):
        passed += 1
print(passed, failed)
