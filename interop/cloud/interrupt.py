"""interrupt.py COMMAND WORK BUCKET: interrupt a conversion while its object is sent; neither the object nor parts of it are left."""
import os, signal, subprocess, sys, time
import boto3, numpy as np
from safetensors.numpy import save_file

command, work, bucket = sys.argv[1:]
source, key = os.path.join(work, "large.safetensors"), "new/interrupted.zt"
save_file({f"w.{i}": np.zeros(4 << 20, np.float32) for i in range(16)}, source)
s3 = boto3.client("s3", endpoint_url=os.environ["AWS_ENDPOINT_URL"])
p = subprocess.Popen([command, "convert", "-q", source, f"s3://{bucket}/{key}"], stderr=subprocess.PIPE, text=True)
while p.poll() is None and not s3.list_multipart_uploads(Bucket=bucket).get("Uploads"):
    time.sleep(0.01)
p.send_signal(signal.SIGINT)
said = p.communicate(timeout=60)[1]
os.remove(source)
left = s3.list_multipart_uploads(Bucket=bucket).get("Uploads", [])
there = s3.list_objects_v2(Bucket=bucket, Prefix=key).get("KeyCount")
if p.returncode != 130 or left or there:
    sys.exit(f"exit status {p.returncode}, {len(left)} uploads, {there} objects: {said}")
