"""The attention engine's main job: policies side by side in a small language model on a long text.

A prompt of 6K tokens is read once, by llama.cpp's own attention; its keys and values go into a
session for every setting: dense, serial and prr, at three budgets. Each writes 64 tokens, in turns,
and foretells the text's next 128. The sparse ones write from a file of blocks too.
"""

from __future__ import annotations

import json
import pathlib
import subprocess
import tempfile

from offpath import children

from .results import program, write_report

PROMPT_TOKENS, TOKENS, LOSS_TOKENS = 6144, 64, 128
BUDGETS = [256, 512, 1024]
# Beyond this it is stuck: a minute or two is what it takes.
SECONDS = 600.0
PARTS = [
    "store keys and values", "dense layers", "select, and speculate", "attend", "merge, and predict",
    "the rest of the model",
]  # fmt: skip


def check_files(model: pathlib.Path, text: pathlib.Path) -> None:
    for file, script in ((model, "scripts/models.sh smollm2"), (text, "scripts/texts.sh")):
        if not file.exists():
            raise RuntimeError(f"{file} is not there: in Offpath's folder {script} makes it")


def compare(model: pathlib.Path, text: pathlib.Path, tier: str) -> list[dict]:
    """A result for every setting; progress goes to stderr."""
    command = [
        program(), "attention", "compare", "-m", str(model), "--text", str(text),
        "--prompt-tokens", str(PROMPT_TOKENS), "-n", str(TOKENS), "--loss-tokens", str(LOSS_TOKENS),
        "--budgets", ",".join(map(str, BUDGETS)), "--policies", "dense,serial,prr", "--selectors", "i4-keys",
        "--speculation", "1.5", "--tier", tier, "--json",
    ]  # fmt: skip
    process = children.popen(command, stdout=subprocess.PIPE)
    try:
        lines, _ = process.communicate(timeout=SECONDS)
    finally:
        process.terminate()
        children.end(process)
    if process.returncode != 0:
        raise RuntimeError(f"the settings were not compared (exit code {process.returncode})")
    # Not splitlines(), which also splits at characters that JSON strings may hold.
    return [json.loads(line) for line in lines.decode().split("\n") if line]


def percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "-"


def print_table(results: list[dict]) -> None:
    first = results[0]
    print(f"  {first['prompt_tokens']} tokens read in {first['prefill_s']:.1f} s, once for {len(results)} settings")
    print()
    print("                          ms a     of these          the   attends  fore-  perplexity,")
    print("                          token  select  attend     rest        to   seen   over llama.cpp's")
    for r in results:
        parts = [r.get("ms_a_step", {}).get(part) for part in PARTS]
        by_part = " " * 24
        if parts[0] is not None:
            by_part = f"{parts[2]:8.2f}{parts[1] + parts[3]:8.2f}{parts[5]:8.2f}"
        attends = percent(r.get("selected_blocks", 0), r.get("context_blocks", 0))
        foreseen = percent(r.get("covered_blocks", 0), r.get("selected_blocks", 0)) if r.get("predicted_blocks") else "-"
        loss = f"{r['perplexity']:8.3f}  {r['over_llama_cpp']:.4f}" if "perplexity" in r else ""
        print(f"  {r['setting']:<22}{r['ms_a_token']:8.2f}{by_part}{attends:>10}{foreseen:>8}{loss}")
    print()
    print("  serial: select blocks, then attend to them. prr: attend to predicted ones meanwhile, then to those")
    print("  that were missed; the result is serial's. In memory, with all cores busy, nothing is gained by")
    print("  that; where blocks are read from a file, they are read ahead.")


def run(model: pathlib.Path, text: pathlib.Path, report: pathlib.Path) -> None:
    print("attention: policies side by side on one long text", flush=True)
    check_files(model, text)
    with tempfile.TemporaryDirectory(prefix="offpath-", dir=model.parent) as tier:
        results = compare(model, text, tier)
    print_table(results)
    write_report("attention-main-job", results, report)
    print(f"\n  plots: {report}")
