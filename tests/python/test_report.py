"""The report is one file that needs no network, and says which line it cannot read."""

import html.parser
import json
import re
import subprocess
import sys

import pytest

import offpath
from offpath.report import make_page, read_results

pytest.importorskip("plotly")

MAIN_JOB = [
    {
        "kind": "graph-main-job", "name": name, "link": "1gbit", "modelled": False, "quota": 50, "batches": 8,
        "bytes_a_batch": size, "seconds_a_batch": seconds, "sample_s": 0.01, "encode_s": 0.02, "transfer_s": seconds,
        "decode_s": 0.01, "compute_s": 0.05, "accuracy": 0.9,
    }
    for name, size, seconds in [("near i8", 7e6, 0.08), ("full f32", 3.4e8, 2.9)]
]  # fmt: skip
PARTS = {
    "store keys and values": 0.1, "dense layers": 2, "select, and speculate": 1, "attend": 0.5,
    "merge, and predict": 0.25, "the rest of the model": 6,
}  # fmt: skip
ATTENTION_JOB = [
    {
        "kind": "attention-main-job", "setting": setting, "policy": policy, "prompt_tokens": 6144, "prefill_s": 9.5,
        "tokens": 64, "ms_a_token": 9.85, "perplexity": perplexity, "over_llama_cpp": perplexity / 10, **more,
    }
    for setting, policy, perplexity, more in [
        ("llama.cpp", "native", 10, {}),
        ("dense", "dense", 10.01, {"ms_a_step": PARTS}),
        *(
            (
                f"prr quest {budget}", "prr", 10.5 - budget / 1000,
                {
                    "ms_a_step": PARTS, "selector": "quest", "budget": budget, "tier": "memory",
                    "selected_blocks": 50, "context_blocks": 400, "predicted_blocks": 60, "covered_blocks": 45,
                    "sparse_steps": 10, "withheld_steps": 1, "coverage_by_step": [0.8, 0.9],
                },
            )
            for budget in (256, 512)
        ),
    ]
]  # fmt: skip
BENCH = [
    {"bench": "codec", "case": "encode i8", "ours": 9.1, "unit": "GB/s", "limit_fraction": 0.72},
    {"bench": "graph-sample", "case": "edges 1t seeds", "ours": 5e7, "peer": 6e6, "peer_name": "GraphBolt", "ratio": 8.3},
]


class Outline(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.links, self.text, self.open = [], [], [], []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.open.append(tag)
        self.links += [value for name, value in attributes if name in ("src", "href")]

    def handle_endtag(self, tag):
        self.open.pop()

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("script", "style"):
            self.text.append(data)


def outline(page):
    parsed = Outline()
    # Void elements are left open in HTML.
    parsed.feed(re.sub(r"<meta[^>]*>", "", page))
    return parsed


def figures_of(page):
    return json.loads(re.search(r"const FIGURES = (\{.*?\});\n", page, re.S).group(1))


def test_the_page_holds_everything_and_loads_nothing():
    page = make_page(MAIN_JOB + BENCH)
    parsed = outline(page)
    assert parsed.links == []
    assert 'name="viewport"' in page and "prefers-color-scheme: dark" in page
    text = " ".join(parsed.text)
    for word in ("near i8", "full f32", "GraphBolt", "0.72", "8.3", "50% of a core"):
        assert word in text
    figures = figures_of(page)
    assert len(figures) == 5
    assert figures["plot-0-0"]["data"][0]["x"] == [0.08, 2.9]


def test_an_attention_job_is_drawn_by_part_step_and_budget():
    page = make_page(ATTENTION_JOB)
    text = " ".join(outline(page).text)
    for word in ("6,144 tokens", "9.5 s", "prr quest 512", "12.5 %", "90.0 %", "25.0 %", "10.0 %", "1.001"):
        assert word in text
    by_part, coverage, perplexity = (figure["data"] for figure in figures_of(page).values())
    assert {bar["name"]: bar["x"] for bar in by_part}["llama.cpp, all of it"] == [9.85, 0, 0, 0]
    assert {bar["name"]: bar["x"] for bar in by_part}["dense layers"] == [0, 2, 2, 2]
    assert [(line["name"], line["y"]) for line in coverage] == [
        ("prr quest 256", [80, 90]),
        ("prr quest 512", [80, 90]),
    ]
    assert [(line["name"], line["x"]) for line in perplexity] == [
        ("llama.cpp", [256, 512]),
        ("dense", [256, 512]),
        ("prr", [256, 512]),
    ]


def test_an_attention_job_of_one_budget_has_bars_of_perplexity():
    figures = figures_of(make_page(ATTENTION_JOB[:3]))
    assert list(figures.values())[-1]["data"][0]["x"] == [10, 10.01, 10.244]


def test_names_from_files_cannot_become_markup():
    evil = "</script><script>alert(1)</script>"
    page = make_page([{"bench": evil, "case": evil, "ours": 1, "ratio": 2, "unit": evil}])
    assert "alert(1)</script>" not in page.replace("\\u003c/script>", "")


def test_kinds_that_are_not_known_become_tables():
    page = make_page([{"kind": "something-new", "figure": 3.14159, "flag": True}])
    assert "something-new" in page and "3.14" in page


def test_no_results_are_a_page_that_says_so():
    assert "held no results" in make_page([])


@pytest.mark.parametrize("text, says", [("{}\nnot json\n", "line 2"), ("[1]\n", "line 1"), ("{", "line 1")])
def test_lines_that_are_not_results_are_named(tmp_path, text, says):
    (tmp_path / "r.jsonl").write_text(text)
    with pytest.raises(offpath.CorruptDataError, match=f"r.jsonl, {says}"):
        read_results([tmp_path / "r.jsonl"])


def test_a_line_may_hold_any_character_of_a_string(tmp_path):
    # U+2028, U+0085 and a form feed end a line for str.splitlines(), not in JSON; the C++ side does not escape them.
    result = {"kind": "x", "note": "a\u2028b\x85c"}
    (tmp_path / "r.jsonl").write_text(json.dumps(result, ensure_ascii=False) + "\r\n", encoding="utf-8")
    assert read_results([tmp_path / "r.jsonl"]) == [result]


@pytest.mark.parametrize(
    "result, says",
    [
        ({"kind": "graph-main-job", "name": "x"}, "graph-main-job.*seconds_a_batch"),
        ({**MAIN_JOB[0], "seconds_a_batch": 0}, "graph-main-job.*zero"),
        ({"kind": "bench", "ours": 1}, "bench.*'bench'"),
        ({"kind": "graph-train", "accuracy": 3}, "graph-train"),
        ({"kind": "attention-main-job", "setting": "x"}, "attention-main-job.*prompt_tokens"),
        ({**ATTENTION_JOB[2], "ms_a_step": 3}, "attention-main-job"),
    ],
)
def test_results_that_no_command_writes_are_named(result, says):
    with pytest.raises(offpath.CorruptDataError, match=says):
        make_page([result])


def test_the_command_writes_the_page_or_says_why_not(tmp_path):
    (tmp_path / "r.jsonl").write_text("\n".join(map(json.dumps, BENCH)))
    command = [sys.executable, "-m", "offpath", "report"]
    good = subprocess.run([*command, tmp_path / "r.jsonl", "-o", tmp_path / "r.html"], capture_output=True, text=True)
    assert good.returncode == 0 and (tmp_path / "r.html").stat().st_size > 1 << 20
    bad = subprocess.run([*command, tmp_path / "none.jsonl", "-o", tmp_path / "x.html"], capture_output=True, text=True)
    assert bad.returncode == 1 and "none.jsonl" in bad.stderr and "Traceback" not in bad.stderr
    assert sorted(p.name for p in tmp_path.iterdir()) == ["r.html", "r.jsonl"]
