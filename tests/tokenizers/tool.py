"""The tokenize tool as an object, in batches: one process, all requests in, all answers out."""
import subprocess


class Tool:
    def __init__(self, program, model):
        self.command = [str(program), str(model)]

    def ask(self, requests):
        done = subprocess.run(self.command, input="".join(r + "\n" for r in requests), capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        answers = done.stdout.splitlines()
        assert len(answers) == len(requests)
        return answers

    def encode(self, texts, command="encode"):
        answers = self.ask([f"{command} {text.encode().hex()}" for text in texts])
        errors = [a for a in answers if a.startswith("error")]
        assert not errors, errors[:3]
        return [[int(i) for i in a.split(",")] if a else [] for a in answers]

    def decode(self, rows, command="decode"):
        answers = self.ask([f"{command} " + ",".join(map(str, row)) for row in rows])
        return [bytes.fromhex(a).decode() for a in answers]

    def refusal(self):
        done = subprocess.run(self.command, input="", capture_output=True, text=True)
        return done.returncode, done.stderr.strip()
