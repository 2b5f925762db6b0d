"""Builds the programs, each in a folder below the build folder."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path


class Missing(Exception):
    """A program or tool is missing."""


def say(text):
    """Prints progress on stderr, apart from the results."""
    print(text, file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Program:
    """The command that starts a program; the name of a peer follows."""
    command: tuple


class Build:
    """The built programs, and their folders."""

    def __init__(self, sources, folder):
        self.sources = sources
        self.top = sources.parent
        self.folder = folder
        self.folder.mkdir(parents=True, exist_ok=True)
        self.etcd = shutil.which(os.environ.get("PROTOC", "protoc")) is not None
        self.ours = None

    def programs(self, wanted):
        """Builds the project's program and the wanted peers, and reports each peer that cannot be built."""
        self.ours = self._ours()
        ways = {"rust": self._rust, "java": self._java, "go": self._go, "python": self._python}
        built = {"ours": Program((str(self.ours), "bench", "--json"))}
        for name in sorted(wanted - {"ours"}):
            try:
                built[name] = Program(ways[name]())
            except Missing as missing:
                say(f"left out: the peers in {name}: {missing}")
        return built

    def draw(self, lines, picture):
        """Draws the picture of docs/benchmarks.md with the project's own tool."""
        if not any('"M3_grants"' in line for line in lines.read_text(encoding="utf-8").splitlines()):
            say("no picture: hand-offs (M3) were not measured")
            return
        subprocess.run([self.ours, "picture", lines, "--out", picture], check=True)
        print(f"picture: {picture}")

    def _run(self, tool, *arguments, cwd, **environment):
        if shutil.which(tool) is None:
            raise Missing(f"no {tool} on the path")
        say(f"building in {cwd.name}: {Path(tool).name} {arguments[0]}")
        log = self.folder / f"{cwd.name}.log"
        with open(log, "wb") as out:
            done = subprocess.run([tool, *map(str, arguments)], cwd=cwd, env=os.environ | environment,
                                  stdin=subprocess.DEVNULL, stdout=out, stderr=out, check=False)
        if done.returncode:
            end = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
            raise Missing(f"{tool} failed, {log} ends so:\n{end}")

    def _ours(self):
        features = "redis,zookeeper" + (",etcd" if self.etcd else "")
        if not self.etcd:
            say("left out: etcd: no protoc on the path, nor in PROTOC")
        self._run("cargo", "build", "--release", "-p", "latchwork-conformance", "--features", features, cwd=self.top)
        told = subprocess.run(["cargo", "metadata", "--format-version", "1", "--no-deps"], cwd=self.top,
                              stdout=subprocess.PIPE, check=True).stdout
        return Path(json.loads(told)["target_directory"]) / "release" / "latchwork-conformance"

    def _rust(self):
        target = self.folder / "rust"
        features = () if self.etcd else ("--no-default-features",)
        self._run("cargo", "build", "--release", "--locked", "--target-dir", target, *features,
                  cwd=self.sources / "rust")
        return (str(target / "release" / "peers"),)

    def _java(self):
        target = self.folder / "java"
        libraries = target / "libraries"
        if shutil.which("java") is None:
            raise Missing("no java on the path")
        self._run("mvn", "-q", "-B", f"-Dbuild.folder={target}", "compile", "dependency:copy-dependencies",
                  f"-DoutputDirectory={libraries}", cwd=self.sources / "java")
        return ("java", "-Xmx2g", "-cp", f"{target / 'classes'}{os.pathsep}{libraries}/*", "peers.Main")

    def _go(self):
        program = self.folder / "go" / "peers"
        self._run("go", "build", "-o", program, ".", cwd=self.sources / "go")
        return (str(program),)

    def _python(self):
        home = self.folder / "python"
        python = home / "bin" / "python"
        sources = self.sources / "python"
        if not python.exists():
            self._run(sys.executable, "-m", "venv", home, cwd=sources)
        self._run(str(python), "-m", "pip", "install", "-q", "-r", "requirements.txt", cwd=sources)
        return (str(python), "-B", str(sources / "peers.py"))
