"""A link that serves HTTP, as a program. It hands over when asked, or ends at its time limit, which
is a file of that name beside the chain.
"""

import importlib
import os
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ANSWER_S = 0.05
WARM_UP_S = 1.0


class Answer(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.0"

    def do_GET(self) -> None:
        time.sleep(ANSWER_S)  # a request is under way while the address changes
        body = os.environ["MIRAGE_LINK"].encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""


class Server(ThreadingHTTPServer):
    daemon_threads = False  # closing waits for the requests under way
    request_queue_size = 128


def main() -> None:
    sys.path.insert(0, os.environ["PLUGIN"])
    module = importlib.import_module("mirage_handover")
    time.sleep(WARM_UP_S)  # a model loads
    server = Server(("127.0.0.1", 0), Answer)
    serving = threading.Thread(target=server.serve_forever, args=(0.05,))
    serving.start()
    handover = module.Handover(stale_s=2, takeover_s=10)
    try:
        if handover.begin(address=f"127.0.0.1:{server.server_port}"):
            limit = Path(os.environ["MIRAGE_DIR"]).parent / f"limit.{os.environ['MIRAGE_LINK']}"
            while not (handover.should_release() and handover.release(drain_s=0.5)):
                if limit.exists():
                    handover.release()
                    break
                time.sleep(0.02)
    finally:
        server.shutdown()
        serving.join()
        server.server_close()
        Path(os.environ["MIRAGE_DIR"], f"closed.{os.environ['MIRAGE_LINK']}").touch()


if __name__ == "__main__":
    main()
