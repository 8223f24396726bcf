"""interrupt.py COMMAND WORK BUCKET: interrupt a conversion while its object is sent; neither the object nor parts of it are left.

The source comes from a server that holds its second half back, and so the conversion cannot end before it is interrupted.
"""
import http.server, os, re, signal, subprocess, sys, threading, time
import boto3, numpy as np
from safetensors.numpy import save

command, work, bucket = sys.argv[1:]
key = "new/interrupted.zt"
source = save({f"w.{i}": np.zeros(4 << 20, np.float32) for i in range(16)})
interrupted = threading.Event()


class Source(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def do_GET(self):
        first, last = map(int, re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers["Range"]).groups())
        last = min(last, len(source) - 1)
        if last > len(source) // 2:
            interrupted.wait()
        body = source[first : last + 1]
        self.send_response(206)
        for name, value in (("Content-Length", len(body)), ("Content-Range", f"bytes {first}-{last}/{len(source)}"), ("ETag", '"1"')):
            self.send_header(name, str(value))
        self.end_headers()
        try:
            self.wfile.write(body)
        except ConnectionError:  # it was interrupted
            self.close_connection = True


signal.signal(signal.SIGINT, signal.default_int_handler)  # also for the command, where whoever runs this ignores it
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Source)
threading.Thread(target=server.serve_forever, daemon=True).start()
s3 = boto3.client("s3", endpoint_url=os.environ["AWS_ENDPOINT_URL"])
p = subprocess.Popen([command, "convert", "-q", f"http://127.0.0.1:{server.server_port}/large.safetensors", f"s3://{bucket}/{key}"],
                     stderr=subprocess.PIPE, text=True)
while p.poll() is None and not s3.list_multipart_uploads(Bucket=bucket).get("Uploads"):
    time.sleep(0.01)
p.send_signal(signal.SIGINT)
said = p.communicate(timeout=120)[1]
interrupted.set()
left = s3.list_multipart_uploads(Bucket=bucket).get("Uploads", [])
there = s3.list_objects_v2(Bucket=bucket, Prefix=key).get("KeyCount")
if p.returncode != 130 or left or there:
    sys.exit(f"exit status {p.returncode}, {len(left)} uploads, {there} objects: {said}")
