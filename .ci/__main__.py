"""python -m tensorfile: runs the command that this package installed."""
import os
import subprocess
import sys
import sysconfig


def program():
    user = "nt_user" if os.name == "nt" else "posix_user"
    target = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # of pip install --target
    directories = [sysconfig.get_path("scripts"), sysconfig.get_path("scripts", user), os.path.join(target, "bin")]
    name = "tensorfile" + (sysconfig.get_config_var("EXE") or "")
    for directory in directories:
        path = os.path.join(directory, name)
        if os.path.isfile(path):
            return path
    sys.exit("tensorfile: the command is not in " + ", ".join(directories))


if __name__ == "__main__":
    if os.name == "nt":
        sys.exit(subprocess.call([program()] + sys.argv[1:]))
    os.execv(program(), [program()] + sys.argv[1:])
