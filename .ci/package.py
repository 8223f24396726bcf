"""package.py VERSION SYSTEM ARCH DIR SBOM OUT: pack what DIR has, a release for one system, into an archive and a Python wheel in OUT,
and write its SBOM there. package.py DIR OUT: pack DIR, which is for every system, into a zip archive in OUT. The bytes depend on the
content alone."""
import base64
import csv
import gzip
import hashlib
import io
import json
import os
import re
import sys
import tarfile
import zipfile

is_page = len(sys.argv) == 3
version, system, arch, source, sbom, out = [None] * 3 + [sys.argv[1], None, sys.argv[2]] if is_page else sys.argv[1:]
name = os.path.basename(source)
binary = "tensorfile.exe" if system == "windows" else "tensorfile"
PLATFORMS = {
    "linux/amd64": "manylinux2014_x86_64.manylinux_2_17_x86_64.musllinux_1_1_x86_64",
    "linux/arm64": "manylinux2014_aarch64.manylinux_2_17_aarch64.musllinux_1_1_aarch64",
    "darwin/amd64": "macosx_12_0_x86_64",
    "darwin/arm64": "macosx_12_0_arm64",
    "windows/amd64": "win_amd64",
    "windows/arm64": "win_arm64",
}


def read(path):
    with open(path, "rb") as f:
        return f.read()


def zip_of(path, files):
    """A zip archive of (name, bytes, whether it is a program)."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as z:
        for file, data, runs in files:
            info = zipfile.ZipInfo(file, (1980, 1, 1, 0, 0, 0))
            info.external_attr = (0o100755 if runs else 0o100644) << 16
            info.compress_type, info.create_system = zipfile.ZIP_DEFLATED, 3
            z.writestr(info, data, compresslevel=9)


def tar_of(path, files):
    with open(path, "wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as packed:
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as t:
            for file, data, runs in files:
                info = tarfile.TarInfo(file)
                info.size, info.mode = len(data), 0o755 if runs else 0o644
                t.addfile(info, io.BytesIO(data))


def archive():
    files = []
    for directory, _, names in os.walk(source):
        for file in names:
            path = os.path.join(directory, file)
            inside = os.path.relpath(path, source)
            data = read(path)
            if inside.endswith(".md") and not is_page:
                data = linked(inside, lambda target: os.path.exists(f"{source}/{target}")).encode()
            files.append((f"{name}/{inside}".replace(os.sep, "/"), data, inside == binary))
    files.sort()
    if is_page or system == "windows":
        zip_of(f"{out}/{name}.zip", files)
    else:
        tar_of(f"{out}/{name}.tar.gz", files)


def linked(path, has):
    """The Markdown file at a path of the repository. A link to a file of the repository that is not next to it, for which has is false, leads to
    the repository at this version."""
    def absolute(link):
        file, _, anchor = link[1].partition("#")
        target = os.path.normpath(os.path.join(os.path.dirname(path), file))
        if not file or not os.path.exists(target) or has(target):
            return link[0]
        kind = "raw" if file.endswith(".png") else "blob"
        return f"](https://github.com/tensorfile/tensorfile/{kind}/v{version}/{target}{anchor and '#' + anchor})"
    return re.sub(r"\]\((?!https?:)([^)\s]+)\)", absolute, read(path).decode())


def wheel():
    # A version as PEP 440 writes it: 1.2.3-rc.1 is 1.2.3rc1.
    number = re.sub(r"-(alpha|beta|rc)\.?", lambda m: {"alpha": "a", "beta": "b"}.get(m[1], m[1]), version)
    base, tag = f"tensorfile-{number}", PLATFORMS[f"{system}/{arch}"]
    info = f"{base}.dist-info"
    licenses = sorted(os.listdir(f"{source}/licenses"))
    metadata = f"""Metadata-Version: 2.4
Name: tensorfile
Version: {number}
Summary: Show, check, compare, edit and convert tensor files
License-Expression: MIT
License-File: LICENSE
""" + "".join(f"License-File: licenses/{file}\n" for file in licenses) + f"""Requires-Python: >=3.8
Description-Content-Type: text/markdown

{linked("README.md", lambda _: False)}"""
    tags = "".join(f"Tag: py3-none-{t}\n" for t in tag.split("."))
    files = [
        (f"{base}.data/scripts/{binary}", read(f"{source}/{binary}"), True),
        ("tensorfile/__main__.py", read(os.path.join(os.path.dirname(os.path.abspath(__file__)), "__main__.py")), False),
        (f"{info}/METADATA", metadata.encode(), False),
        (f"{info}/WHEEL", f"Wheel-Version: 1.0\nGenerator: tensorfile\nRoot-Is-Purelib: false\n{tags}".encode(), False),
        (f"{info}/licenses/LICENSE", read(f"{source}/LICENSE"), False),
    ] + [(f"{info}/licenses/licenses/{file}", read(f"{source}/licenses/{file}"), False) for file in licenses]
    record = io.StringIO()
    rows = csv.writer(record, lineterminator="\n")
    for file, data, _ in files:
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        rows.writerow([file, f"sha256={digest}", len(data)])
    rows.writerow([f"{info}/RECORD", "", ""])
    files.append((f"{info}/RECORD", record.getvalue().encode(), False))
    zip_of(f"{out}/{base}-py3-none-{tag}.whl", files)


def materials():
    """The SBOM without the time it was made and what depends on the build of its tool."""
    bom = json.loads(read(sbom))
    del bom["metadata"]["timestamp"]
    for tool in bom["metadata"]["tools"]:
        tool.pop("hashes", None)
    with open(f"{out}/{name}.cdx.json", "w") as f:
        json.dump(bom, f, indent=1)
        f.write("\n")


archive()
if not is_page:
    wheel()
    materials()
