#!/usr/bin/env python3
"""A proxy in front of an S3 server that does what networks and stores do now and then: 503, refusals, short bodies, answers
that stall, errors inside a 200. It also plays the services that give credentials of roles.

  s3_proxy.py PORT SERVER_PORT

POST /-/faults   a JSON list of {"match": "GET /bucket/key", "do": "status 503 SlowDown", "times": 2}; replaces the last one.
                 `do`: status CODE S3CODE | short | stall | error_in_200 | other_range
GET  /-/log      what was asked for since the last POST /-/faults, a line each: "GET /bucket/key bytes=0-9"
"""
import http.client
import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

LOCK = threading.Lock()
FAULTS = []
LOG = []
KEYS = {"AccessKeyId": "DISTILLTEST", "SecretAccessKey": "distill-test-secret"}
ROLE = {**KEYS, "Token": "", "Expiration": "2099-01-01T00:00:00Z"}
TOKEN_SERVICE = """<R xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult><Credentials>
<AccessKeyId>{AccessKeyId}</AccessKeyId><SecretAccessKey>{SecretAccessKey}</SecretAccessKey><SessionToken></SessionToken>
<Expiration>2099-01-01T00:00:00Z</Expiration></Credentials></AssumeRoleResult></R>""".format(**KEYS)
ERROR = "<?xml version='1.0'?><Error><Code>{}</Code><Message>said by the proxy</Message></Error>"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, body, headers=()):
        body = body.encode() if isinstance(body, str) else body
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def role_service(self, body):
        """Whether this was asked of one of them, and is answered."""
        if self.path == "/-/faults":
            with LOCK:
                FAULTS[:] = json.loads(body)
                LOG.clear()
            self.answer(200, "")
        elif self.path == "/-/log":
            with LOCK:
                self.answer(200, "\n".join(LOG))
        elif self.path == "/-/container":
            allowed = self.headers.get("Authorization") == "let me in"
            self.answer(200 if allowed else 401, json.dumps(ROLE) if allowed else "no token")
        elif self.path == "/latest/api/token" and self.command == "PUT":
            self.answer(200, "instance-token")
        elif self.path.startswith("/latest/meta-data/iam/security-credentials/"):
            is_role = self.path.endswith("/trainer")
            allowed = self.headers.get("X-aws-ec2-metadata-token") == "instance-token"
            self.answer(200 if allowed else 401, json.dumps(ROLE) if is_role else "trainer\n")
        elif self.path.startswith("/?Action=AssumeRole"):
            with LOCK:
                LOG.append(f"{self.command} {self.path}")
            self.answer(200, TOKEN_SERVICE)
        else:
            return False
        return True

    def fault(self, line):
        with LOCK:
            LOG.append(line)
            for fault in FAULTS:
                if fault["match"] in line and fault["times"] > 0:
                    fault["times"] -= 1
                    return fault["do"].split()
        return ["none"]

    def forward(self, body):
        server = http.client.HTTPConnection("127.0.0.1", int(sys.argv[2]), timeout=60)
        server.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            server.putheader(name, value)
        server.endheaders(body if body else None)
        answer = server.getresponse()
        data = answer.read()
        headers = [(n, v) for n, v in answer.getheaders() if n.lower() not in ("content-length", "connection", "transfer-encoding")]
        length = answer.getheader("Content-Length")
        server.close()
        return answer.status, headers, data, length

    def serve(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.role_service(body):
            return
        kind, *more = self.fault(f"{self.command} {self.path} {self.headers.get('Range', '')}".strip())
        if kind == "status":
            self.answer(int(more[0]), ERROR.format(more[1]), [("Date", "Thu, 01 Jan 2099 00:00:00 GMT")])
            return
        if kind == "error_in_200":
            self.answer(200, ERROR.format("InternalError"))
            return
        status, headers, data, length = self.forward(body)
        if kind == "other_range":
            headers = [(n, "bytes 1-2/3" if n.lower() == "content-range" else v) for n, v in headers]
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        if length is not None or self.command != "HEAD":
            self.send_header("Content-Length", length if self.command == "HEAD" else str(len(data)))
        self.end_headers()
        if self.command == "HEAD":
            return
        if kind in ("short", "stall"):
            self.wfile.write(data[: len(data) // 2])
            self.wfile.flush()
            if kind == "stall":
                time.sleep(30)
            self.close_connection = True
            return
        self.wfile.write(data)

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = serve


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, *_):  # a client that has cut a stalled answer
        pass


if __name__ == "__main__":
    Server(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
