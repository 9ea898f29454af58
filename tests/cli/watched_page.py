"""What `tutti watch` serves."""

import contextlib
import http.client
import json
import socket

from support import LIMIT, start


def free_port():
    with socket.socket() as any_port:
        any_port.bind(("127.0.0.1", 0))
        return any_port.getsockname()[1]


@contextlib.contextmanager
def watch(process, *arguments):
    """The port at which the page is served."""
    port = free_port()
    served = start("watch", str(process), "--http", f":{port}", "--interval", "0.2", *arguments)
    try:
        line = served.stdout.readline()
        assert line.startswith(f"http://localhost:{port}/ shows the job of process "), line + served.stderr.read()
        yield port
    finally:
        served.kill()
        served.communicate()


def get(port, path, host="localhost", method="GET"):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT)
    connection.request(method, path, headers={"Host": host})
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


def samples(port, after=0):
    return json.loads(get(port, f"/samples/{after}")[1])
