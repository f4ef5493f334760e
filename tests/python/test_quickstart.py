"""The main jobs' report holds every engine's last results; what a job misses is named."""

import json
import subprocess
import sys

import pytest

pytest.importorskip("plotly")

from offpath.quickstart.results import write_report  # noqa: E402


def kinds_in(lines):
    return [json.loads(line)["kind"] for line in lines.read_text(encoding="utf-8").splitlines()]


def test_a_job_replaces_its_own_results_and_keeps_those_of_others(tmp_path, environment, monkeypatch):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    report = tmp_path / "report.html"
    write_report("graph", [{"x": 1}, {"x": 2}], report)
    write_report("attention", [{"y": 3, "kind": "other"}], report)
    write_report("graph", [{"x": 4}], report)
    assert kinds_in(tmp_path / "report.jsonl") == ["attention", "graph"]
    page = report.read_text(encoding="utf-8")
    assert "<h2>attention</h2>" in page and "<h2>graph</h2>" in page
    assert sorted(file.name for file in tmp_path.iterdir()) == ["report.html", "report.jsonl"]


def test_the_attention_job_names_the_file_that_is_missing(tmp_path, environment):
    def run():
        return subprocess.run(
            [sys.executable, "-m", "offpath.quickstart", "attention", "--model", "m.gguf", "--text", "t.txt"],
            env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip

    done = run()
    assert done.returncode == 1
    assert "m.gguf" in done.stderr and "scripts/models.sh" in done.stderr and "Traceback" not in done.stderr
    (tmp_path / "m.gguf").write_text("")
    done = run()
    assert done.returncode == 1 and "t.txt" in done.stderr and "scripts/texts.sh" in done.stderr
