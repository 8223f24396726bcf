#!/usr/bin/env bash
# cloud.sh: the command of the module cloud reads what the stores' own libraries put into servers of S3 (moto, and versitygw where it is
# installed), Google Cloud Storage (fake-gcs-server) and Azure Blob Storage (azurite): objects, prefixes, wrong credentials, missing objects.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
py=$(interop/tools.sh stores)
fakegcs=$(interop/tools.sh fakegcs)
azurite=$(interop/tools.sh azurite)
versitygw=$(interop/tools.sh cached versitygw || true)
work=$(mktemp -d)
servers=()
trap '[ ${#servers[@]} -eq 0 ] || kill "${servers[@]}" 2>/dev/null || true; wait; rm -rf "$work"' EXIT
passed=0 failed=0 skipped=0
proves() { if "${@:2}"; then passed=$((passed + 1)) && echo "ok: $1"; else failed=$((failed + 1)) && echo "FAIL: $1"; fi; }

for name in $(compgen -e | grep -E '^(AWS|AZURE|GOOGLE|STORAGE)_' || true); do unset "$name"; done # whoever runs this has credentials, perhaps
(cd cloud && go build -o "$work/tensorfile" ./cmd/tensorfile)
export AWS_EC2_METADATA_DISABLED=true HOME=$work
unset HTTP_PROXY HTTPS_PROXY ALL_PROXY http_proxy https_proxy all_proxy # the servers are here
tensorfile=$work/tensorfile

# A model of two shards, the second of several parts, and a file whose name has every character that addresses give a meaning.
"$py" - "$work/put" <<'PY'
import json, os, sys
import numpy as np
from safetensors.numpy import save_file

top = sys.argv[1]
os.makedirs(top + "/m/sub")
one, two = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
random = np.random.default_rng()
save_file({"a": random.random((10, 10), np.float32)}, f"{top}/m/{one}")
save_file({f"b.{i}": random.random((700, 1000), np.float32) for i in range(5)}, f"{top}/m/{two}")
save_file({"c": random.random(1000, np.float32)}, f"{top}/m/sub/a b+c?d#e%41&f=g;'~ü.safetensors")
weights = {"a": one, **{f"b.{i}": two for i in range(5)}}
json.dump({"metadata": {}, "weight_map": weights}, open(top + "/m/model.safetensors.index.json", "w"))
json.dump({"model_type": "llama"}, open(top + "/m/config.json", "w"))
PY

# Their tensors as models of one file.
cp "$work/put/m/model-00001-of-00002.safetensors" "$work/small.safetensors"
cp "$work/put/m/model-00002-of-00002.safetensors" "$work/large.safetensors"

# serve COMMAND...: start a server that ends with the script, and wait until it accepts connections; its port, @ in the command, is then
# in $port. It has two minutes; where it ends by itself, something else may have taken the port, and it has another.
serve() {
	local turn i pid
	for turn in 1 2 3 4 5; do
		port=$("$py" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
		"${@//@/$port}" >"$work/server.log" 2>&1 &
		pid=$!
		servers+=($pid)
		for ((i = 0; i < 1200; i++)); do
			if (: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
				sleep 0.2 # what accepts may be another's, and ours about to end
				if kill -0 $pid 2>/dev/null; then return; fi
			fi
			kill -0 $pid 2>/dev/null || break
			sleep 0.1
		done
	done
	cat "$work/server.log"
	return 1
}

same() { [ "$("$tensorfile" hash --content "$1" | cut -d' ' -f1)" = "$("$tensorfile" hash --content "$2" | cut -d' ' -f1)" ]; }

# says STATUS WORDS COMMAND...: the command ends with that status and says the words.
says() {
	local status=0
	"${@:3}" >"$work/out" 2>&1 || status=$?
	[ $status -eq "$1" ] && grep -qF -- "$2" "$work/out" || { echo "exit status $status" && cat "$work/out" && return 1; }
}

# reads NAME ROOT: what the command must make of a bucket.
reads() {
	local file="a b+c?d#e%41&f=g;'~ü.safetensors"
	proves "$1: an object of several parts" same "$2m/model-00002-of-00002.safetensors" "$work/put/m/model-00002-of-00002.safetensors"
	proves "$1: a key of many characters" same "$2m/sub/$file" "$work/put/m/sub/$file"
	proves "$1: a prefix is a model" says 0 "2 shards, 6 tensors" "$tensorfile" check "${2}m"
	proves "$1: a prefix is a model, read whole" says 0 "hashed" "$tensorfile" check --deep --values "${2}m/"
	proves "$1: the model as one file" same "${2}m/" "$work/put/m"
	proves "$1: a listing" says 0 "${2}m/model-00001-of-00002.safetensors" "$tensorfile" detect -r "${2}m/"
	proves "$1: a shard alone is no model" says 3 "1 of the 2 files of a model" "$tensorfile" convert "${2}m/model-00002-of-00002.safetensors" "$work/$1.zt"
	proves "$1: converted, from the first shard" "$tensorfile" convert -q "${2}m/model-00001-of-00002.safetensors" "$work/$1.zt"
	proves "$1: converted without a loss" same "$work/$1.zt" "$work/put/m"
	proves "$1: an object that is missing" says 3 "404" "$tensorfile" ls "${2}m/absent.safetensors"
	proves "$1: a prefix without objects" says 3 "does not exist" "$tensorfile" check "${2}absent/"
}

# s3 NAME PORT: what holds for a store of S3 whose credentials are in the environment.
s3() {
	export AWS_ENDPOINT_URL=http://127.0.0.1:$2 AWS_DEFAULT_REGION=us-east-1
	"$py" interop/cloud/put.py s3 "$AWS_ENDPOINT_URL" models "$work/put"
	reads "$1" s3://models/
	writes "$1" s3://models/
	proves "$1: an interrupted conversion" "$py" interop/cloud/interrupt.py "$tensorfile" "$work" models
	proves "$1: no parts are left" "$py" - <<'PY'
import boto3, os, sys
left = boto3.client("s3", endpoint_url=os.environ["AWS_ENDPOINT_URL"]).list_multipart_uploads(Bucket="models").get("Uploads", [])
sys.exit(len(left))
PY
}

# writes NAME ROOT: what the command must write into a bucket.
writes() {
	local model=$work/large.safetensors small=$work/small.safetensors
	proves "$1: an object of several parts is written" "$tensorfile" convert -q "$model" "${2}new/a b.zt"
	proves "$1: it is what was converted" same "${2}new/a b.zt" "$model"
	proves "$1: a small object is written" "$tensorfile" convert -q "$small" "${2}new/small.zt"
	proves "$1: from bucket to bucket" "$tensorfile" convert -q "${2}new/small.zt" "${2}new/copy.safetensors"
	proves "$1: it is what was converted, too" same "${2}new/copy.safetensors" "$small"
	proves "$1: an object that exists is kept" says 3 "exists" "$tensorfile" convert -q "$small" "${2}new/a b.zt"
	proves "$1: and is what it was" same "${2}new/a b.zt" "$model"
	proves "$1: unless --force replaces it" "$tensorfile" convert -q --force "$small" "${2}new/a b.zt"
	proves "$1: and it is replaced" same "${2}new/a b.zt" "$small"
}

serve "$(dirname "$py")/moto_server" -H 127.0.0.1 -p @
moto=$port
export AWS_ACCESS_KEY_ID=testing AWS_SECRET_ACCESS_KEY=testing
s3 moto "$moto"
# From now on moto checks signatures, but wrongly for listings and unusual keys, boto3's too.
read -r id secret < <("$py" - <<PY
import boto3, json
iam = boto3.client("iam", endpoint_url="http://127.0.0.1:$moto")
iam.create_user(UserName="reader")
document = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}
iam.put_user_policy(UserName="reader", PolicyName="p", PolicyDocument=json.dumps(document))
key = iam.create_access_key(UserName="reader")["AccessKey"]
print(key["AccessKeyId"], key["SecretAccessKey"])
PY
)
"$py" -c 'import sys, urllib.request; urllib.request.urlopen(urllib.request.Request(sys.argv[1], b"0", {"Content-Type": "text/plain"}))' "http://127.0.0.1:$moto/moto-api/reset-auth"
export AWS_ACCESS_KEY_ID=$id AWS_SECRET_ACCESS_KEY=$secret
proves "moto: its signature is accepted" same s3://models/m/model-00002-of-00002.safetensors "$work/put/m/model-00002-of-00002.safetensors"
AWS_SECRET_ACCESS_KEY=another-secret proves "moto: a wrong secret" says 3 "SignatureDoesNotMatch" "$tensorfile" ls s3://models/m/model-00001-of-00002.safetensors
proves "moto: the provider is named" grep -qF "credentials of AWS_ACCESS_KEY_ID" "$work/out"
proves "moto: the secret is not" bash -c '! grep -qE "another-secret|'"$id"'" "$0"' "$work/out"
AWS_ACCESS_KEY_ID=another proves "moto: a wrong key" says 3 "InvalidAccessKeyId" "$tensorfile" ls s3://models/m/model-00001-of-00002.safetensors

if [ -n "$versitygw" ]; then
	mkdir "$work/gateway"
	export AWS_ACCESS_KEY_ID=tester AWS_SECRET_ACCESS_KEY=tester-secret
	serve env ROOT_ACCESS_KEY=tester ROOT_SECRET_KEY=tester-secret "$versitygw" --port 127.0.0.1:@ posix "$work/gateway"
	s3 versitygw "$port"
	AWS_SECRET_ACCESS_KEY=another-secret proves "versitygw: a wrong secret" says 3 "SignatureDoesNotMatch" "$tensorfile" check s3://models/m
else
	echo "skip: versitygw is not installed (interop/tools.sh versitygw takes eight minutes)" && skipped=$((skipped + 1))
fi

serve "$fakegcs" -scheme http -host 127.0.0.1 -port @ -backend memory -public-host 127.0.0.1:@
export STORAGE_EMULATOR_HOST=127.0.0.1:$port
"$py" interop/cloud/put.py gs "http://127.0.0.1:$port" models "$work/put"
reads fake-gcs-server gs://models/
writes fake-gcs-server gs://models/

serve "$azurite" --silent --inMemoryPersistence --blobHost 127.0.0.1 --blobPort @ --skipApiVersionCheck --disableTelemetry
account=devstoreaccount1 # with the key that azurite publishes
key=Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==
export AZURE_STORAGE_CONNECTION_STRING="DefaultEndpointsProtocol=http;AccountName=$account;AccountKey=$key;BlobEndpoint=http://127.0.0.1:$port/$account;"
"$py" interop/cloud/put.py az - models "$work/put"
reads azurite az://models/
writes azurite az://models/
sas=$("$py" interop/cloud/sas.py models)
AZURE_STORAGE_CONNECTION_STRING="BlobEndpoint=http://127.0.0.1:$port/$account;SharedAccessSignature=$sas" \
	proves "azurite: a shared access signature" says 0 "6 tensors" "$tensorfile" check az://models/m
wrong=$(echo another-secret | base64)
AZURE_STORAGE_CONNECTION_STRING="AccountName=$account;AccountKey=$wrong;BlobEndpoint=http://127.0.0.1:$port/$account" \
	proves "azurite: a wrong key" says 3 "credentials of AZURE_STORAGE_CONNECTION_STRING" "$tensorfile" check az://models/m

echo "interop cloud: $passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
