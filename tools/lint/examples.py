#!/usr/bin/env python3
"""examples/cluster: shellcheck, systemd-analyze verify, and the manifest's YAML and its fields.

A tool that is not installed is an error: tools/packages-test.txt names its package. Only systemd is
not put on a machine for a lint's sake: without it a unit's sections and command are looked at."""

import configparser
import pathlib
import shutil
import subprocess
import sys

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "examples" / "cluster"
problems = []


def run(path, command, ignored=()):
    if shutil.which(command[0]) is None:
        problems.append(f"{path}: {command[0]} is not installed (tools/packages-test.txt)")
        return
    done = subprocess.run(command, capture_output=True, text=True)
    lines = [
        line
        for line in (done.stdout + done.stderr).splitlines()
        if line.strip() and not any(words in line for words in ignored)
    ]
    if lines:
        problems.append(f"{path}: {command[0]}:\n  " + "\n  ".join(lines))


def check_manifest(path):
    try:
        import yaml
    except ImportError:
        problems.append(f"{path}: python3-yaml is not installed (tools/packages-test.txt)")
        return
    try:
        documents = {each["kind"]: each for each in yaml.safe_load_all(path.read_text())}
        service, job = documents["Service"], documents["Job"]
        spec = job["spec"]
        pod = spec["template"]["spec"]
        container = pod["containers"][0]
        env = {entry["name"]: entry["value"] for entry in container["env"]}
        facts = {
            "service has the pods' subdomain": service["metadata"]["name"] == pod["subdomain"],
            "service selects the pods": service["spec"]["selector"].items()
            <= spec["template"]["metadata"]["labels"].items(),
            "service is headless": service["spec"]["clusterIP"] in (None, "None"),
            "job is indexed": spec["completionMode"] == "Indexed",
            "WORLD_SIZE is the number of pods": env["WORLD_SIZE"]
            == str(spec["completions"])
            == str(spec["parallelism"]),
            "MASTER_ADDR is pod 0": env["MASTER_ADDR"]
            == f"{job['metadata']['name']}-0.{pod['subdomain']}",
            "every mount has its volume": {mount["name"] for mount in container["volumeMounts"]}
            == {volume["name"] for volume in pod["volumes"]},
        }
        problems.extend(f"{path}: not so: {fact}" for fact, holds in facts.items() if not holds)
    except (yaml.YAMLError, KeyError, TypeError, IndexError) as error:
        problems.append(f"{path}: {type(error).__name__}: {error}")


def check_unit(path):
    if shutil.which("systemd-analyze"):
        # The program and the user are of the machine that the unit is for.
        run(path, ["systemd-analyze", "verify", "--man=no", str(path)], ("is not executable",))
    unit = configparser.ConfigParser(interpolation=None)
    try:
        unit.read_string(path.read_text())
        if set(unit.sections()) != {"Unit", "Service", "Install"}:
            problems.append(f"{path}: sections {unit.sections()}")
        if not unit["Service"]["ExecStart"].startswith("/usr/local/bin/actor-node "):
            problems.append(f"{path}: ExecStart starts something else than actor-node")
    except (configparser.Error, KeyError) as error:
        problems.append(f"{path}: {error}")


for script in sorted(FOLDER.glob("*.sh")):
    run(script, ["shellcheck", str(script)])
for unit in sorted(FOLDER.glob("*.service")):
    check_unit(unit)
for manifest in sorted(FOLDER.glob("*.yaml")):
    check_manifest(manifest)
print("\n".join(problems) if problems else "lint.examples: ok")
sys.exit(1 if problems else 0)
