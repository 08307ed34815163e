"""squad_serve under load, with clients that send nonsense, too much or too slowly, and at its end. Loopback only.

serve.py FOLDER: demo.py has left its data and its model there.
"""
import concurrent.futures
import gzip
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support"))
import job

DEMO = sys.argv[1]
MODEL = f"{DEMO}/demo"
HOST = "127.0.0.1"


class Server:
    def __init__(self, **options):
        arguments = [f"{job.BIN}/squad_serve", "--model_name_or_path", MODEL, "--port", "0", "--max_seq_length", "64"]
        for name, value in options.items():
            arguments += [f"--{name}", str(value)]
        self.process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=job.environment())
        line = self.process.stdout.readline()
        match = re.fullmatch(rf"listening at http://{HOST}:(\d+)\n", line)
        job.check(match, f"the server's first line is {line!r}")
        self.port = int(match[1])

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if self.process.poll() is None:
            self.process.kill() if kind else self.end()
        self.process.wait()

    def end(self):
        """Ends it as a launcher does; what it printed."""
        self.process.send_signal(signal.SIGTERM)
        output = self.process.communicate(timeout=20)[0]
        job.check(self.process.returncode == 0, f"exit code {self.process.returncode} at SIGTERM:\n{output}")
        return output

    def ask(self, method, path, body=None, headers=None, timeout=30):
        connection = http.client.HTTPConnection(HOST, self.port, timeout=timeout)
        try:
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read() or "null")
        finally:
            connection.close()

    def invoke(self, question, context):
        return self.ask("POST", "/invocations", json.dumps({"inputs": {"question": question, "context": context}}),
                        {"Content-Type": "application/json"})

    def raw(self, *parts, pause=0.0, timeout=20):
        """What comes back until the server closes; '' where it closes without a word."""
        with socket.create_connection((HOST, self.port), timeout=timeout) as connection:
            got = b""
            try:
                for part in parts:
                    connection.sendall(part)
                    time.sleep(pause)
            except OSError:
                pass
            try:
                while chunk := connection.recv(65536):
                    got += chunk
            except ConnectionResetError:
                pass
            return got.decode()


def questions():
    with open(f"{DEMO}/data/dev.json", encoding="utf-8") as file:
        return [(qa["question"], paragraph["context"]) for article in json.load(file)["data"] for paragraph in article["paragraphs"]
                for qa in paragraph["qas"]]


def check_same_as_answer(server):
    """What `squad answer` prints is what the server says."""
    for question, context in questions()[:3] + [("Where does Ada live?", "日本 Ada lives in Oslo. 🙂")]:
        path = f"{DEMO}/question.txt"
        with open(path, "w", encoding="utf-8") as file:
            file.write(context)
        done = subprocess.run([f"{job.BIN}/squad", "answer", "--model_name_or_path", MODEL, "--context", path, "--question", question,
                               "--max_seq_length", "64", "--device", "cpu"], stdout=subprocess.PIPE, text=True, check=True,
                              env=job.environment())
        status, answer = server.invoke(question, context)
        printed = re.search(r"^(.*)\nscore (\S+), characters (\d+) to (\d+)$", done.stdout, re.MULTILINE)
        job.check(status == 200 and sorted(answer) == ["answer", "end", "score", "start"], answer)
        job.check(printed and printed[1] == answer["answer"] and (int(printed[3]), int(printed[4])) == (answer["start"], answer["end"])
                  and abs(float(printed[2]) - answer["score"]) < 1e-5, f"{answer}, but `squad answer` printed {done.stdout}")
        job.check(context[answer["start"]:answer["end"]] == answer["answer"], f"{answer} does not stand there in {context}")
    print("ok: the answers of `squad answer`")


def check_exact_answers(server):
    """The words that stand in the text, where they stand: README.md's own question, and characters of several bytes before the answer."""
    for context, expected in (("Ada keeps a white cat. Ada lives in Rome.", "Rome"), ("日本 Ada lives in Oslo. 🙂", "Oslo"),
                              ("Ada keeps a white cat. Ada lives in old Lisbon.", "old Lisbon")):
        status, answer = server.invoke("Where does Ada live?", context)
        start = context.index(expected)
        job.check(status == 200 and (answer["answer"], answer["start"], answer["end"]) == (expected, start, start + len(expected)),
                  f"{answer}, not '{expected}', of: {context}")
        job.check(0.5 < answer["score"] <= 1, f"the demo's model is not sure of {answer}")
    print("ok: exact answers")


def check_load(server):
    """Many clients at one time, some of which stay for several questions: each has the answer that it has alone."""
    asked = questions()[:60]
    alone = [server.invoke(*one) for one in asked]
    job.check(all(status == 200 for status, _ in alone), alone[0])
    job.check(server.ask("GET", "/ping") == (200, {}), "no ping")

    def client(number):
        connection = http.client.HTTPConnection(HOST, server.port, timeout=60)
        answers = []
        for i in range(number, len(asked) * 3, 24):
            question, context = asked[i % len(asked)]
            connection.request("POST", "/invocations", json.dumps({"question": question, "context": context}))
            answer = connection.getresponse()
            answers.append((i % len(asked), (answer.status, json.loads(answer.read()))))
        connection.close()
        return answers

    began = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(24) as pool:
        answers = [one for got in pool.map(client, range(24)) for one in got]
    seconds = time.monotonic() - began
    job.check(len(answers) == len(asked) * 3, f"{len(answers)} answers")
    for i, (status, answer) in answers:
        same = status == 200 and all(answer[key] == alone[i][1][key] for key in ("answer", "start", "end"))
        job.check(same and abs(answer["score"] - alone[i][1]["score"]) < 1e-5, f"{answer} under load, {alone[i]} alone")
    print(f"ok: 24 clients, {len(answers) / seconds:.0f} answers a second")


def check_bad_requests(server):
    good = {"question": "Where?", "context": "Ada lives in Oslo."}
    for body, status, what in [
            ("", 400, "JSON"), ("no JSON", 400, "not valid JSON"), ("{", 400, "JSON"), ("[1]", 400, "the body must be"), ("7", 400, "the body must be"),
            (b"\xff\xfe", 400, ""), ("[" * 5000, 400, ""), (json.dumps({"inputs": "text"}), 400, "'inputs' is no object"),
            (json.dumps({"inputs": {"question": "Who?"}}), 400, "'context' is missing"),
            (json.dumps({"inputs": {"context": "Ada"}}), 400, "'question' is missing"),
            (json.dumps({"inputs": {"question": 7, "context": "Ada"}}), 400, "'question' is no string"),
            (json.dumps({"inputs": {**good, "context": ""}}), 400, "the context is empty"),
            (json.dumps({"inputs": {**good, "context": " \n"}}), 400, "the context is empty"),
            (json.dumps({"inputs": {**good, "question": ""}}), 400, "the question is empty"),
            (json.dumps({"inputs": {**good, "question": "why " * 200}}), 400, "too little room"),
            (json.dumps({"inputs": {"question": "Where " * 28, "context": "Ada " * 16000}}), 400, "windows beside this question, more than 4096"),
            (json.dumps({"inputs": {**good, "top_k": 3}}), 400, "'top_k' is not known"),
            (json.dumps({"inputs": good, "parameters": {}}), 400, "'parameters' is not known"),
            (json.dumps({"inputs": {**good, "context": "x" * 70000}}), 413, "more than 65536 bytes")]:
        got, answer = server.ask("POST", "/invocations", body)
        job.check(got == status and answer["code"] == status and what in answer["message"], f"{body[:60]!r}: {got} {answer}")
    for method, path, status in ("GET", "/invocations", 405), ("PUT", "/invocations", 405), ("POST", "/ping", 405), ("DELETE", "/ping", 405), \
            ("GET", "/", 404), ("POST", "/other", 404):
        got, answer = server.ask(method, path, "{}" if method != "GET" else None)
        job.check(got == status and answer["code"] == status, f"{method} {path}: {got} {answer}")
    print("ok: bad requests")


def check_bad_bytes(server):
    head = b"POST /invocations HTTP/1.1\r\nHost: a\r\n"
    answers = {
        "a chunked body that is too large": (server.raw(head + b"Transfer-Encoding: chunked\r\n\r\n", *[b"8000\r\n" + b"x" * 0x8000 + b"\r\n"] * 4), "413"),
        "a huge length": (server.raw(head + b"Content-Length: 99999999999999\r\n\r\n{}"), "413"),
        "a negative length": (server.raw(head + b"Content-Length: -5\r\n\r\n{}"), "400"),
        "no length": (server.raw(head + b"\r\n{}"), "411"),
        "a form": (server.raw(head + b"Content-Type: multipart/form-data; boundary=x\r\nContent-Length: 2\r\n\r\n{}"), "415"),
        "no HTTP": (server.raw(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" * 50 + b"\r\n\r\n"), ""),
        "a path without end": (server.raw(b"GET /" + b"a" * 20000 + b" HTTP/1.1\r\n\r\n"), ""),
        "a header without end": (server.raw(b"GET /ping HTTP/1.1\r\nX: " + b"a" * 100000 + b"\r\n\r\n"), ""),
    }
    for name, (answer, status) in answers.items():
        # "": such clients are hung up on, or refused.
        is_right = status in answer[:20] if status else not answer or answer.startswith("HTTP/1.1 4")
        job.check(is_right, f"{name}: {answer[:300]!r}")
    with socket.create_connection((HOST, server.port)) as connection:  # half a body, and gone
        connection.sendall(head + b"Content-Length: 50\r\n\r\n{\"inp")
    bomb = gzip.compress(b" " * 30_000_000)
    packed = server.raw(head + f"Content-Encoding: gzip\r\nContent-Length: {len(bomb)}\r\n\r\n".encode() + bomb)
    job.check("413" in packed[:20], f"a body that grows when it is unpacked: {packed[:300]!r}")
    job.check(server.ask("GET", "/ping") == (200, {}), "no ping after bad bytes")
    print("ok: bad bytes")


def check_slow_clients():
    """They are told so when their time is over, and others are answered meanwhile."""
    with Server(request_timeout_seconds=6, idle_timeout_seconds=6, threads=4) as server:
        head = b"POST /invocations HTTP/1.1\r\nHost: a\r\nContent-Length: 40\r\n\r\n"
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            body = pool.submit(server.raw, head, *[b"x"] * 36, pause=0.2)
            header = pool.submit(server.raw, *[b"G"] + [b"E"] * 36, pause=0.2)
            silent = pool.submit(server.raw, timeout=20)
            job.check(server.invoke("Where does Ada live?", "Ada lives in Oslo.")[0] == 200, "nobody else is answered")
            job.check(not body.done() and not silent.done(), "others wait for slow clients")
            answer = body.result()
            job.check("408" in answer[:20] and "did not come in time" in answer, f"a slow body: {answer!r}")
            job.check(header.result() == "" and silent.result() == "", "a slow header, or nothing, is answered")
        job.check(server.ask("GET", "/ping") == (200, {}), "no ping after slow clients")
    print("ok: slow clients")


def check_too_many():
    """Connections beyond threads and queue are refused at once."""
    with Server(threads=1, queue_size=1, idle_timeout_seconds=20, request_timeout_seconds=20) as server:
        held = []
        for _ in range(2):
            held.append(socket.create_connection((HOST, server.port)))
            time.sleep(0.2)
        status, answer = server.ask("GET", "/ping")
        job.check(status == 503 and answer["code"] == 503, f"{status} {answer}")
        for connection in held:
            connection.close()
        deadline = time.monotonic() + 10
        while server.ask("GET", "/ping")[0] != 200:
            job.check(time.monotonic() < deadline, "refused although there is room")
            time.sleep(0.1)
    print("ok: too many at one time")


def check_end():
    """At SIGTERM what is being sent is still answered, and the port is free then."""
    with Server() as server:
        body = json.dumps({"question": "Where does Ada live?", "context": "Ada lives in Oslo."}).encode()
        with socket.create_connection((HOST, server.port), timeout=20) as connection:
            connection.sendall(b"POST /invocations HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body) + body[:10])
            time.sleep(0.3)
            server.process.send_signal(signal.SIGTERM)
            time.sleep(0.3)
            connection.sendall(body[10:])
            answer = b""
            while chunk := connection.recv(65536):
                answer += chunk
            answer = answer.decode()
            job.check(answer.startswith("HTTP/1.1 200") and '"Oslo"' in answer, f"at the end: {answer!r}")
        output = server.process.communicate(timeout=20)[0]
        job.check(server.process.returncode == 0 and "a signal ends the server" in output, output)
        try:
            socket.create_connection((HOST, server.port), timeout=2).close()
            sys.exit("FAILED: the port is still open")
        except ConnectionRefusedError:
            pass
    print("ok: the end")


def check_options():
    with Server() as server:
        for arguments, what in [(["--port", str(server.port)], f"cannot listen at {HOST}:{server.port}"), (["--port", "70000"], "port"),
                                (["--model_name_or_path", f"{DEMO}/nothing"], "nothing")]:
            done = subprocess.run([f"{job.BIN}/squad_serve", "--model_name_or_path", MODEL, *arguments], stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, timeout=30, env=job.environment())
            job.check(done.returncode in (1, 2) and "error: " in done.stdout and what in done.stdout, done.stdout)
    print("ok: options")


def main():
    with Server(max_body_bytes=65536) as server:
        check_same_as_answer(server)
        check_exact_answers(server)
        check_load(server)
        check_bad_requests(server)
        check_bad_bytes(server)
    check_slow_clients()
    check_too_many()
    check_end()
    check_options()


main()
