"""Imitates the parts of torch's TCPStore that Tutti uses; prints every new name and value, one line each. `torch_store.py PORT`."""

import socketserver
import struct
import sys
import threading

VALUES = {}
LOCK = threading.Lock()


class Client(socketserver.StreamRequestHandler):
    def text(self):
        return self.rfile.read(struct.unpack("<Q", self.rfile.read(8))[0])

    def handle(self):
        if self.rfile.read(5) != struct.pack("<BI", 0, 0x3C85F7CE):
            return
        while self.rfile.read(1) == b"\x02":
            name, expected, desired = self.text(), self.text(), self.text()
            with LOCK:
                if VALUES.get(name, b"") == expected:
                    VALUES[name] = desired
                    print(name.decode(), desired.decode(), flush=True)
                value = VALUES.get(name, expected)
            self.wfile.write(struct.pack("<Q", len(value)) + value)


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


with Server(("", int(sys.argv[1])), Client) as server:
    print("ready", flush=True)
    server.serve_forever()
