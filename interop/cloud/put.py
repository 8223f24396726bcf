"""put.py KIND ENDPOINT BUCKET DIR: make the bucket and put the files below DIR into it, by the store's own library where it has one."""
import json, os, sys, urllib.parse, urllib.request

kind, endpoint, bucket, top = sys.argv[1:]
files = sorted((os.path.relpath(os.path.join(d, f), top), os.path.join(d, f)) for d, _, fs in os.walk(top) for f in fs)
if kind == "s3":
    import boto3
    from boto3.s3.transfer import TransferConfig

    s3 = boto3.client("s3", endpoint_url=endpoint)
    s3.create_bucket(Bucket=bucket)
    for name, path in files:  # the larger ones in parts
        s3.upload_file(path, bucket, name, Config=TransferConfig(multipart_threshold=5 << 20, multipart_chunksize=5 << 20))
elif kind == "gs":
    def post(path, body, kind):
        urllib.request.urlopen(urllib.request.Request(endpoint + path, body, {"Content-Type": kind})).read()

    post("/storage/v1/b?project=p", json.dumps({"name": bucket}).encode(), "application/json")
    for name, path in files:
        query = urllib.parse.urlencode({"uploadType": "media", "name": name})
        post(f"/upload/storage/v1/b/{bucket}/o?{query}", open(path, "rb").read(), "application/octet-stream")
elif kind == "az":
    from azure.storage.blob import BlobServiceClient

    container = BlobServiceClient.from_connection_string(os.environ["AZURE_STORAGE_CONNECTION_STRING"]).create_container(bucket)
    for name, path in files:
        with open(path, "rb") as f:
            container.upload_blob(name, f)
