"""offpath.attention: the operator, selectors, predictors, policies and traces, against plain numpy."""

import dataclasses
import json
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
from conftest import ROOT

import offpath
from offpath import attention

HEADS, GROUP, DIM, BLOCK = 2, 3, 16, 16


def draw(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def plain_attention(query, keys, values, scale):
    """query [heads, dim], keys and values [tokens, dim]: result and log-sum-exp in f64."""
    scores = query.astype(np.float64) @ keys.T.astype(np.float64) * scale
    top = scores.max(1, keepdims=True)
    weights = np.exp(scores - top)
    return weights @ values / weights.sum(1, keepdims=True), top[:, 0] + np.log(weights.sum(1))


@pytest.fixture
def filled():
    keys, values = draw(1, 70, HEADS, DIM), draw(2, 70, HEADS, DIM)
    cache = attention.KvCache(layers=1, kv_heads=HEADS, head_dim=DIM, type="f32")
    sequence = cache.create()
    cache.append(sequence, 0, keys, values)
    return cache, sequence, keys, values


def test_attention_to_lists_of_blocks_is_the_softmax_over_their_tokens(filled):
    cache, sequence, keys, values = filled
    queries = draw(3, HEADS * GROUP, DIM)
    lists = [[0, 4], [1, 2]]
    output, lse = cache.attend(sequence, 0, queries, lists).finish()
    for head, blocks in enumerate(lists):
        tokens = [t for t in range(70) if t // BLOCK in blocks]
        rows = slice(head * GROUP, (head + 1) * GROUP)
        expected, expected_lse = plain_attention(queries[rows], keys[tokens, head], values[tokens, head], DIM**-0.5)
        np.testing.assert_allclose(output[rows], expected, atol=1e-5)
        np.testing.assert_allclose(lse[rows], expected_lse, atol=1e-5)


def test_states_of_disjoint_blocks_merge_in_any_order_and_the_empty_one_changes_nothing(filled):
    cache, sequence, _, _ = filled
    queries = draw(4, HEADS * GROUP, DIM)
    parts = [cache.attend(sequence, 0, queries, [b] * HEADS) for b in ([0, 1], [2], [3, 4], [])]
    whole, _ = cache.attend(sequence, 0, queries).finish()
    for order in ([0, 1, 2, 3], [3, 2, 1, 0], [2, 3, 0, 1]):
        state = parts[order[0]]
        for i in order[1:]:
            state = state.merge(parts[i])
        np.testing.assert_allclose(state.finish()[0], whole, atol=1e-5)
    output, lse = parts[3].finish()
    assert not output.any() and np.isneginf(lse).all()


def test_the_window_leaves_out_the_tokens_before_it(filled):
    cache, sequence, keys, values = filled
    queries = draw(5, HEADS * GROUP, DIM)
    output, _ = cache.attend(sequence, 0, queries, first_token=37).finish()
    expected, _ = plain_attention(queries[:GROUP], keys[37:, 0], values[37:, 0], DIM**-0.5)
    np.testing.assert_allclose(output[:GROUP], expected, atol=1e-5)


@pytest.mark.parametrize("blocks, named", [([-1], "no block -1"), ([5], "no block 5"), ([1, 0, 1], "block 1 comes twice")])
def test_bad_block_lists_are_refused_by_name(filled, blocks, named):
    cache, sequence, _, _ = filled
    with pytest.raises(offpath.InvalidArgumentError, match=f"KV head 1: {named}"):
        cache.attend(sequence, 0, draw(6, HEADS * GROUP, DIM), [[0], blocks])


def test_arrays_of_other_shapes_are_refused_by_name(filled):
    cache, sequence, keys, values = filled
    with pytest.raises(offpath.InvalidArgumentError, match="keys of shape"):
        cache.append(sequence, 0, keys[:, :1], values)
    with pytest.raises(offpath.InvalidArgumentError, match="70 tokens and values of 3"):
        cache.append(sequence, 0, keys, values[:3])
    with pytest.raises(offpath.InvalidArgumentError, match="queries of shape"):
        cache.attend(sequence, 0, draw(7, 5, DIM))
    with pytest.raises(offpath.InvalidArgumentError, match="blocks of 1 KV heads"):
        cache.attend(sequence, 0, draw(7, 6, DIM), [[0]])
    with pytest.raises(offpath.InvalidArgumentError, match="the sequence 70 tokens"):
        cache.read(sequence, 0, 0, 69, 2)


def test_what_is_stored_is_read_back(filled):
    cache, sequence, keys, values = filled
    stored_keys, stored_values = cache.read(sequence, 0, 1, 10, 33)
    np.testing.assert_array_equal(stored_keys, keys[10:43, 1])
    np.testing.assert_array_equal(stored_values, values[10:43, 1])


def test_torch_tensors_are_taken_and_results_become_tensors(filled):
    torch = pytest.importorskip("torch")
    cache, sequence, keys, values = filled
    other = cache.create()
    cache.append(other, 0, torch.from_numpy(keys), torch.from_numpy(values))
    queries = torch.from_numpy(draw(8, HEADS * GROUP, DIM))
    output, _ = cache.attend(other, 0, queries).finish()
    expected, _ = cache.attend(sequence, 0, queries.numpy()).finish()
    assert torch.equal(torch.from_dlpack(output), torch.from_numpy(expected))


def test_quest_scores_are_the_formula(filled):
    cache, sequence, keys, _ = filled
    selector = attention.Selector("quest", head_dim=DIM)
    queries = draw(9, GROUP, DIM)
    scores = selector.index(cache, sequence).scores(0, 1, queries)
    blocks = keys[:64, 1].reshape(4, BLOCK, DIM)
    expected = np.maximum(queries[:, None] * blocks.min(1), queries[:, None] * blocks.max(1)).sum(2).mean(0)
    np.testing.assert_allclose(scores, expected, rtol=2e-3, atol=2e-2)  # summaries are f16


def test_every_selector_scores_its_whole_blocks():
    cache = attention.KvCache(layers=1, kv_heads=1, head_dim=DIM, block_tokens=32)
    sequence = cache.create()
    rows = draw(10, 200, 1, DIM)
    cache.append(sequence, 0, rows, rows)
    for info in attention.selectors():
        selector = attention.Selector(info.name, head_dim=DIM, block_tokens=32)
        index = selector.index(cache, sequence)
        scores = index.scores(0, 0, rows[0])
        assert scores.shape == (6,), info.name
        kept = selector.kept.within(4)
        priorities = index.priorities(0, 0) if kept.priority else None
        chosen = attention.choose_blocks(scores, 4, blocks=7, kept=kept, priorities=priorities)
        assert len(chosen) == 4 and chosen[-1] == 6, info.name


def test_the_best_blocks_are_chosen_and_lower_ones_first_among_equals():
    scores = [1, 5, 5, 0, 5, np.nan]
    assert attention.choose_blocks(scores, 3, kept=attention.Kept(window=0)).tolist() == [1, 2, 4]
    assert attention.choose_blocks(scores, 3, blocks=8).tolist() == [1, 6, 7]
    assert attention.choose_blocks(scores, 3, kept=attention.Kept(sinks=1)).tolist() == [0, 1, 5]
    with pytest.raises(offpath.InvalidArgumentError, match="by priority"):
        attention.choose_blocks(scores, 3, kept=attention.Kept(priority=1))


def test_predictors_follow_their_definitions():
    ema = attention.Ema(alpha=0.25)
    ema.observe(None, [4.0, 0.0], [0])
    ema.observe(None, [0.0, 8.0], [1])
    np.testing.assert_allclose(ema.predict(), [3, 2])
    regression = attention.QueryRegression(2)
    regression.observe(np.array([1, 0], np.float32), [1, 0, 3], [2])
    regression.observe(np.array([0, 1], np.float32), [0, 1, 3], [2])
    np.testing.assert_allclose(regression.predict(np.array([2, 5], np.float32)), [2, 5, 21], rtol=2e-3)
    previous = attention.PreviousSet()
    previous.observe(None, [0, 0, 0, 0], np.array([1, 3, 4]))
    assert previous.predict(None).tolist() == [0, 1, 0, 1]
    with pytest.raises(offpath.InvalidArgumentError, match="alpha"):
        attention.Ema(alpha=0)


def test_the_fit_averages_where_scores_are_noise():
    rng = np.random.default_rng(1)
    level = rng.standard_normal(64)
    history = []
    for _ in range(40):
        scores = (level + rng.standard_normal(64)).astype(np.float32)
        history.append((scores, np.argsort(-scores)[:8]))
    fit = attention.fit_ema(history, 12)
    assert fit.alpha < 0.5 and 0.3 < fit.coverage <= 1
    with pytest.raises(offpath.InvalidArgumentError, match="2 steps"):
        attention.fit_ema(history[:1], 12)


def run_decoder(policy, **options):
    decoder = attention.Decoder(
        layers=3, query_heads=HEADS * GROUP, kv_heads=HEADS, head_dim=DIM, budget_tokens=64,
        policy=policy, selector="quest", memory_bytes=1 << 24, **options,
    )  # fmt: skip
    sequence = decoder.create()
    rng = np.random.default_rng(5)
    outputs = []
    for tokens in [200] + [1] * 20:
        for layer in range(3):
            keys, values = (rng.standard_normal((tokens, HEADS, DIM), dtype=np.float32) for _ in range(2))
            decoder.append(sequence, layer, keys, values)
            queries = rng.standard_normal((tokens, HEADS * GROUP, DIM), dtype=np.float32)
            outputs.append(decoder.attend(sequence, layer, queries)[-1])
    return decoder, sequence, np.stack(outputs)


def test_prr_equals_serial_for_any_number_of_threads_and_counts_what_it_predicted():
    _, _, serial = run_decoder("serial")
    decoder, sequence, prr = run_decoder("prr", speculated_blocks=6)
    np.testing.assert_allclose(prr, serial, atol=2e-5)
    _, _, threaded = run_decoder("prr", speculated_blocks=6, threads=3)
    np.testing.assert_array_equal(threaded, prr)
    counters = decoder.counters()
    assert counters["sparse_steps"] == 20  # layers 0 and 1 are dense
    assert 0 < counters["covered_blocks"] <= counters["predicted_blocks"]
    selection = decoder.last_selection(sequence, 2, 1)
    assert len(selection) == 4 and selection[-1] == 219 // BLOCK
    assert decoder.last_selection(sequence, 0, 0).size == 0
    with pytest.raises(offpath.InvalidArgumentError, match="layer 3"):
        decoder.last_selection(sequence, 3, 0)


def test_a_bounded_scan_selects_what_the_flat_one_does():
    _, _, flat = run_decoder("serial")
    _, _, bounded = run_decoder("serial", scan="bounded")
    np.testing.assert_array_equal(bounded, flat)
    with pytest.raises(offpath.InvalidArgumentError, match="no scan 'sharp'"):
        run_decoder("serial", scan="sharp")


def test_a_budget_table_of_another_machine_is_refused_unless_forced(tmp_path):
    row = {"tokens": 210, "selection_ns": 9, "window_ns": 9, "overhead_ns": 0, "saving_ns": 9, "fits": 3}
    table = {
        "format": "offpath-budgets",
        "version": 1,
        "machine": {"cpu": "Abacus", "cores": 1, "target": "beads"},
        "shape": {
            "layers": 3, "query_heads": HEADS * GROUP, "kv_heads": HEADS, "head_dim": DIM, "type": "f16",
            "block_tokens": BLOCK, "selector": "quest", "scan": "flat", "predictor": "ema",
            "budget_tokens": 64, "threads": 1, "tier": "memory", "hot_blocks": 0,
        },
        "rows": [{**row, "times": [{"blocks": 3, "ns": 9}]}],
    }  # fmt: skip
    path = tmp_path / "budgets.json"
    path.write_text(json.dumps(table))
    with pytest.raises(offpath.InvalidArgumentError, match="another machine .Abacus, 1 cores, beads"):
        run_decoder("prr", budgets=str(path))
    decoder, _, _ = run_decoder("prr", budgets=str(path), force_budgets=True)
    counters = decoder.counters()
    assert counters["withheld_steps"] == 9  # of contexts of 201 to 209, in the one sparse layer
    assert counters["predicted_blocks"] == 10 * 3 * HEADS
    with pytest.raises(offpath.CorruptDataError, match="budgets.json"):
        path.write_text("{}")
        run_decoder("prr", budgets=str(path))


def test_a_fitted_predictor_covers_the_first_step():
    decoder, sequence, _ = run_decoder("prr", speculated_blocks=9, predictor="regression")
    queries = np.cumsum(draw(13, 24, HEADS * GROUP, DIM), 0)
    rows = draw(14, 1, HEADS, DIM)
    decoder.fit_predictor(sequence, 2, queries)
    decoder.reset_counters()
    decoder.append(sequence, 2, rows, rows)
    decoder.attend(sequence, 2, queries[-1:])
    counters = decoder.counters()
    assert counters["covered_blocks"] > 0.7 * counters["selected_blocks"]
    with pytest.raises(offpath.InvalidArgumentError, match="at least 2 tokens"):
        decoder.fit_predictor(sequence, 2, queries[:1])


def test_forks_and_cuts_of_a_decoder_go_on_alike():
    decoder, sequence, _ = run_decoder("serial")
    fork = decoder.fork(sequence, 210)
    decoder.truncate(sequence, 210)
    rows, queries = draw(11, 1, HEADS, DIM), draw(12, 1, HEADS * GROUP, DIM)
    outputs = []
    for each in (sequence, fork):
        decoder.append(each, 2, rows, rows)
        outputs.append(decoder.attend(each, 2, queries))
    np.testing.assert_array_equal(*outputs)
    decoder.free(fork)
    with pytest.raises(offpath.NotFoundError):
        decoder.tokens(fork, 0)


def test_bad_decoder_input_is_refused_by_name():
    with pytest.raises(offpath.InvalidArgumentError, match="no policy 'speedy'"):
        run_decoder("speedy")
    with pytest.raises(offpath.InvalidArgumentError, match="windows"):
        run_decoder("dense", windows=[1])
    decoder, sequence, _ = run_decoder("dense")
    with pytest.raises(offpath.InvalidArgumentError, match="queries of shape"):
        decoder.attend(sequence, 0, draw(1, 1, HEADS, DIM))
    rows = draw(1, 1, HEADS, DIM)
    rows[0, 1, 3] = np.nan
    with pytest.raises(offpath.InvalidArgumentError, match="KV head 1: the key of token 220"):
        decoder.append(sequence, 0, rows, rows)


class MeanSelector(attention.BlockSelector):
    name = "mean"

    def __init__(self):
        self.summarized = 0

    def summarize(self, keys):
        self.summarized += 1
        return keys.mean(0)

    def score(self, summaries, queries, scale):
        return summaries @ queries.mean(0)


@pytest.mark.parametrize("kind", ["f32", "f16", "bf16"])
def test_numbers_that_are_not_finite_are_named_and_never_attended_to(kind):
    cache = attention.KvCache(layers=1, kv_heads=HEADS, head_dim=DIM, type=kind)
    sequence = cache.create()
    keys, values = draw(1, 40, HEADS, DIM), draw(2, 40, HEADS, DIM)
    cache.append(sequence, 0, keys, values)
    queries = draw(3, HEADS * GROUP, DIM)
    for bad in [np.nan, np.inf]:
        wrong = queries.copy()
        wrong[4, 7] = bad
        with pytest.raises(offpath.InvalidArgumentError, match="query of head 4"):
            cache.attend(sequence, 0, wrong, scale=0.25)
        with pytest.raises(offpath.InvalidArgumentError, match="scale"):
            cache.attend(sequence, 0, queries, scale=bad)
        with pytest.raises(offpath.InvalidArgumentError, match="soft_cap"):
            cache.attend(sequence, 0, queries, scale=0.25, soft_cap=bad)
        rows = keys[:1].copy()
        rows[0, 1, 3] = bad
        for damaged in [(rows, values[:1]), (keys[:1], rows)]:
            fork = cache.fork(sequence, 40)
            cache.append(fork, 0, *damaged)
            with pytest.raises(offpath.InvalidArgumentError, match="KV head 1 of layer 0"):
                cache.attend(fork, 0, queries, scale=0.25)
            cache.attend(fork, 0, queries, [[0, 1], [0, 1]], scale=0.25)
            cache.free(fork)
    for blocks in [[-1, 0, 1], [0, -1], [0, 3], [1, 1]]:
        with pytest.raises(offpath.InvalidArgumentError, match="KV head 0"):
            cache.attend(sequence, 0, queries, [blocks, [0]], scale=0.25)


def smooth_trace(steps=60, tokens=400, layers=2):
    rng = np.random.default_rng(3)
    queries = np.cumsum(rng.standard_normal((steps, layers, HEADS * GROUP, DIM)), 0) / 8
    shape = (tokens, layers, HEADS, DIM)
    return attention.Trace(
        keys=rng.standard_normal(shape).astype(np.float16),
        queries=queries.astype(np.float32),
        values=rng.standard_normal(shape).astype(np.float16),
        scale=0.25,
    )


def test_a_selector_of_ones_own_is_measured_beside_the_others():
    trace = smooth_trace()
    own = MeanSelector()
    report = attention.measure_selector(trace, own, budget_blocks=8, fit_steps=20)
    assert report.selector == "mean" and report.steps == 40 and report.predicted_blocks == 12
    assert own.summarized == 2 * HEADS * (400 // BLOCK)  # once a block
    assert 0.3 < report.mass < 1
    assert report.coverage["previous"].heads.shape == (2 * HEADS,)
    for coverage in report.coverage.values():
        assert 0.4 < coverage.worst_heads <= coverage.mean <= 1
    # Scores are linear in the query, and 16 steps nearly span its 16 dimensions.
    assert report.coverage["regression"].mean > report.coverage["previous"].mean
    oracle = attention.measure_selector(trace, "oracle", budget_blocks=8, fit_steps=20, predictors={})
    assert report.mass < oracle.mass < 1 and oracle.coverage == {}


def test_the_oracle_with_room_for_all_blocks_holds_all_of_the_softmax():
    report = attention.measure_selector(smooth_trace(), "oracle", budget_blocks=25, fit_steps=20, predictors={})
    assert report.mass == pytest.approx(1, abs=1e-5)


def test_a_selector_that_returns_another_number_of_scores_is_refused():
    class Short(MeanSelector):
        def score(self, summaries, queries, scale):
            return super().score(summaries, queries, scale)[1:]

    with pytest.raises(offpath.InvalidArgumentError, match="selector mean: score"):
        attention.measure_selector(smooth_trace(), Short(), fit_steps=20)
    with pytest.raises(offpath.InvalidArgumentError, match="60 steps"):
        attention.measure_selector(smooth_trace(), "quest", fit_steps=60)


def test_traces_are_read_back_and_damaged_ones_are_named(tmp_path):
    trace = smooth_trace()
    trace.save(tmp_path / "trace")
    read = attention.Trace.load(tmp_path / "trace")
    np.testing.assert_array_equal(read.keys, trace.keys)
    np.testing.assert_array_equal(read.queries, trace.queries)
    assert read.scale == trace.scale and read.steps == 60
    with pytest.raises(offpath.NotFoundError, match="trace.json"):
        attention.Trace.load(tmp_path)
    keys = (tmp_path / "trace" / "keys.npy").read_bytes()
    for name, content, named in [
        ("keys.npy", keys[:-100], "keys.npy"),
        ("keys.npy", b"", "keys.npy"),
        ("trace.json", b"[]", "not the manifest"),
        ("trace.json", b'{"format": "offpath-attention-trace", "version": 7}', "version 7"),
        ("trace.json", b'{"format": "offpath-attention-trace", "version": 1, "scale": NaN}', "scale"),
        ("trace.json", b"{", "trace.json"),
        ("trace.json", b"[" * 60000, "trace.json"),
        ("trace.json", b" " * 70000, "more than 65536 bytes"),
        ("trace.json", b'{"format": "offpath-attention-trace", "version": 1, "scale": 1%s}' % (b"0" * 400), "scale"),
        ("trace.json", b'{"format": "\xff"}', "trace.json"),
    ]:
        before = (tmp_path / "trace" / name).read_bytes()
        (tmp_path / "trace" / name).write_bytes(content)
        with pytest.raises(offpath.CorruptDataError, match=named):
            attention.Trace.load(tmp_path / "trace")
        (tmp_path / "trace" / name).write_bytes(before)
    np.save(tmp_path / "trace" / "queries.npy", trace.queries[:, :1])
    with pytest.raises(offpath.CorruptDataError, match="do not fit"):
        attention.Trace.load(tmp_path / "trace")


def test_a_traces_recorded_selections_are_read_back_and_damaged_ones_are_named(tmp_path):
    plain = smooth_trace(steps=3, tokens=40, layers=1)
    scores = np.zeros((3, 1, HEADS, 3), np.float32)
    selected = np.full((3, 1, HEADS, 2), 2**32 - 1, np.uint32)
    selected[..., 0] = 1
    recorded = attention.TraceSelection("quest", 32, 16, scores, selected)
    trace = dataclasses.replace(plain, selection=recorded)
    trace.save(tmp_path / "trace")
    read = attention.Trace.load(tmp_path / "trace").selection
    assert (read.selector, read.budget_tokens, read.block_tokens) == ("quest", 32, 16)
    np.testing.assert_array_equal(read.scores, scores)
    np.testing.assert_array_equal(read.chosen(2, 0, 1), [1])
    with pytest.raises(offpath.InvalidArgumentError, match="do not fit"):
        dataclasses.replace(plain, selection=dataclasses.replace(recorded, budget_tokens=64))
    for blocks in [(1, 1), (2, 0), (3, 2**32 - 1)]:
        wrong = dataclasses.replace(recorded, selected=np.broadcast_to(np.uint32(blocks), selected.shape))
        with pytest.raises(offpath.CorruptDataError, match="step 1, layer 0, KV head 1"):
            wrong.chosen(1, 0, 1)
    manifest = json.loads((tmp_path / "trace" / "trace.json").read_text())
    for damage in [{"budget_tokens": "32"}, {"budget_tokens": 8}, {"block_tokens": 0}, {"selector": None}]:
        damaged = manifest | {"selection": manifest["selection"] | damage}
        (tmp_path / "trace" / "trace.json").write_text(json.dumps(damaged))
        with pytest.raises(offpath.CorruptDataError, match="trace.json"):
            attention.Trace.load(tmp_path / "trace")
    (tmp_path / "trace" / "trace.json").write_text(json.dumps(manifest))
    np.save(tmp_path / "trace" / "selected.npy", selected.astype(np.int64))
    with pytest.raises(offpath.CorruptDataError, match="selected.npy: int64, not uint32"):
        attention.Trace.load(tmp_path / "trace")


def test_whatever_byte_of_a_trace_is_damaged_it_is_read_or_named(tmp_path):
    trace = smooth_trace(steps=2, tokens=20, layers=1)
    trace.save(tmp_path / "trace")
    rng = np.random.default_rng(11)
    for name in ["trace.json", "keys.npy", "queries.npy", "values.npy"]:
        path = tmp_path / "trace" / name
        whole = path.read_bytes()
        for _ in range(150):
            damaged = bytearray(whole)
            for _ in range(rng.integers(1, 4)):
                damaged[rng.integers(min(len(whole), 160))] = rng.integers(256)
            path.write_bytes(damaged[: rng.integers(len(whole))] if rng.random() < 0.2 else damaged)
            try:
                attention.Trace.load(tmp_path / "trace")
            except (offpath.CorruptDataError, offpath.NotFoundError) as error:
                assert "trace" in str(error)
        path.write_bytes(whole)


def test_the_example_measures_its_own_selector_on_a_saved_trace(tmp_path, environment):
    smooth_trace().save(tmp_path / "trace")
    command = [sys.executable, ROOT / "examples" / "own_selector.py", tmp_path / "trace"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()] == [
        "selector", "largest-keys", "quest", "arkvale", "oracle",
    ]  # fmt: skip


def test_a_result_is_shared_with_torch_and_not_copied(filled):
    torch = pytest.importorskip("torch")
    cache, sequence, _, _ = filled
    output, lse = cache.attend(sequence, 0, torch.from_numpy(draw(8, HEADS * GROUP, DIM))).finish()
    for array in (output, lse):
        tensor = torch.from_dlpack(array)
        assert tensor.data_ptr() == array.__array_interface__["data"][0]
        tensor.fill_(7)
        assert (array == 7).all()


def peak_of(call):
    """Bytes of arrays made during a call, at most."""
    tracemalloc.start()
    call()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def test_arrays_are_read_where_they_are_and_other_floats_are_rounded_to_f32():
    rows = draw(5, 4000, HEADS, DIM)
    cache = attention.KvCache(layers=1, kv_heads=HEADS, head_dim=DIM, type="f32")
    one, other = cache.create(), cache.create()
    assert peak_of(lambda: cache.append(one, 0, rows, rows)) < rows.nbytes / 10
    # Keys and values of different types, and neither of f32: such are converted, which takes memory.
    keys, values = rows.astype(np.float64), rows.astype(np.float16)
    assert peak_of(lambda: cache.append(other, 0, keys, values)) > rows.nbytes / 2
    for stored, given in zip(cache.read(other, 0, 1, 0, 4000), (rows, values.astype(np.float32))):
        np.testing.assert_array_equal(stored, given[:, 1])


def test_a_tensor_is_read_where_it_is(filled):
    torch = pytest.importorskip("torch")
    cache, sequence, _, _ = filled

    class Handed:
        """Gives its memory by DLPack alone, and knows what was taken."""

        def __init__(self, tensor):
            self.tensor, self.taken = tensor, 0

        def __dlpack__(self, **options):
            self.taken += 1
            return self.tensor.__dlpack__(**options)

        def __dlpack_device__(self):
            return self.tensor.__dlpack_device__()

    queries = Handed(torch.from_numpy(draw(8, HEADS * GROUP, DIM)))
    output, _ = cache.attend(sequence, 0, queries).finish()
    assert queries.taken == 1
    expected, _ = cache.attend(sequence, 0, queries.tensor.numpy()).finish()
    np.testing.assert_array_equal(output, expected)


@pytest.mark.parametrize("policy", ["serial", "reuse", "prr"])
def test_a_budget_of_nothing_is_refused_by_name(policy):
    with pytest.raises(offpath.InvalidArgumentError, match="a budget of 0 tokens is less than a block of 16"):
        attention.Decoder(layers=1, query_heads=2, kv_heads=1, head_dim=DIM, policy=policy, budget_tokens=0)


def test_arrays_that_are_no_floats_are_refused(filled):
    cache, sequence, keys, values = filled
    for wrong in (keys.astype(complex), keys.astype(str), [["a"]], None):
        with pytest.raises(TypeError):
            cache.append(sequence, 0, wrong, values)
    assert cache.tokens(sequence, 0) == 70
