#!/usr/bin/env python3
"""The chat of scripts/quickstart: waits until the server is ready, streams one answer, prints its speed.

    quickstart_chat.py PORT SERVER_PID

Standard library only. Exit status 1 when the server is gone, or does not answer.
"""
import http.client
import json
import os
import sys
import time

QUESTION = "Explain in two sentences what a computer is."
READY_SECONDS = 120
ANSWER_TOKENS = 120


def alive(pid):
    """Whether the process runs; a child that ended but was not waited for is gone too."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def wait_until_ready(port, pid):
    start = time.monotonic()
    while time.monotonic() - start < READY_SECONDS:
        if not alive(pid):
            return False
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
            connection.request("GET", "/health/ready")
            if connection.getresponse().status == 200:
                print(f"ready after {time.monotonic() - start:.1f} s", flush=True)
                return True
        except OSError:
            pass
        time.sleep(0.05)
    return False


def chat(port):
    body = json.dumps({
        "model": "smollm2", "stream": True, "stream_options": {"include_usage": True}, "temperature": 0,
        "max_tokens": ANSWER_TOKENS, "messages": [{"role": "user", "content": QUESTION}]})
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    print(f"\nYou: {QUESTION}\nSmolLM2: ", end="", flush=True)
    sent = time.monotonic()
    connection.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json"})
    response = connection.getresponse()
    if response.status != 200:
        print(f"\nHTTP {response.status}: {response.read(2000).decode(errors='replace')}", file=sys.stderr)
        return False
    first = last = None
    usage, done = {}, False
    for line in response:
        if not line.startswith(b"data:"):
            continue
        data = line[5:].strip()
        if data == b"[DONE]":
            done = True
            break
        event = json.loads(data)
        if "error" in event:
            print(f"\n{event['error']}", file=sys.stderr)
            return False
        usage = event.get("usage") or usage
        for choice in event.get("choices", []):
            text = choice.get("delta", {}).get("content")
            if text:
                last = time.monotonic()
                first = first or last
                print(text, end="", flush=True)
    tokens = usage.get("completion_tokens", 0)
    if not done or first is None or tokens < 1:
        print("\nthe stream ended without an answer", file=sys.stderr)
        return False
    rate = f", {(tokens - 1) / (last - first):.0f} tokens/s" if tokens > 1 and last > first else ""
    print(f"\n\n{tokens} tokens, first after {(first - sent) * 1000:.0f} ms{rate}", flush=True)
    return True


def main():
    port, pid = int(sys.argv[1]), int(sys.argv[2])
    try:
        sys.exit(0 if wait_until_ready(port, pid) and chat(port) else 1)
    except (OSError, http.client.HTTPException) as error:
        sys.exit(f"no answer: {error}")


if __name__ == "__main__":
    os.environ.setdefault("PYTHONIOENCODING", "utf-8")
    main()
