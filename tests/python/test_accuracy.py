"""Accuracy at f32 on public splits, and what quantized features cost, on few seeds.

scripts/accuracy.sh runs the whole comparison, 30 seeds, and writes docs/experiments/quantization.md.
"""

import math
import statistics

import pytest

pytest.importorskip("torch")

from offpath.graph import accuracy, import_graph  # noqa: E402

SEEDS = 3


def quiet(line):
    pass


@pytest.fixture(scope="module")
def stores(planetoid, tmp_path_factory):
    folder = tmp_path_factory.mktemp("planetoid")
    return {
        name: import_graph(planetoid / f"ind.{name}.graph", folder / f"{name}.store")
        for name in accuracy.PUBLIC_FLOORS
    }


def test_the_public_splits_are_the_public_ones(stores):
    assert stores["cora"].num_nodes() == 2708 and len(stores["cora"].split("train")) == 140
    assert stores["citeseer"].num_nodes() == 3327 and len(stores["citeseer"].split("test")) == 1000


def test_public_accuracy_at_f32(stores):
    for result in accuracy.public_splits(stores, SEEDS, quiet):
        assert result["accuracy"] >= result["floor"] - 0.01, result


def test_i8_and_i4_cost_little_on_projected_features(stores, tmp_path):
    store = accuracy.project(stores["cora"], tmp_path / "cora-128.store")
    assert store.features().shape == (2708, 128)
    found = accuracy.accuracies(store, accuracy._PROJECTED, ["f32", "i8", "i4"], SEEDS, quiet)
    # Few seeds: wider than the bars that 30 are held to.
    assert abs(statistics.mean(found["i8"]) - statistics.mean(found["f32"])) < 0.015
    assert abs(statistics.mean(found["i4"]) - statistics.mean(found["f32"])) < 0.035


def test_the_interval_is_student_s():
    for degrees, exact in [(2, 4.3027), (5, 2.5706), (9, 2.2622), (29, 2.0452), (200, 1.9719)]:
        assert math.isclose(accuracy.student_t_975(degrees), exact, rel_tol=3e-3)
    c = accuracy.compare("g", "i8", [0.80, 0.82, 0.81], [0.80, 0.81, 0.81])
    assert math.isclose(c.difference, 1 / 3, rel_tol=1e-6) and c.seeds == 3
    assert math.isclose(c.half_width, 4.303 * statistics.stdev([0, 1, 0]) / math.sqrt(3), rel_tol=1e-6)
    assert not accuracy.compare("g", "i8", [0.7, 0.71], [0.8, 0.8]).holds
    assert accuracy.compare("g", "i2", [0.7, 0.71], [0.8, 0.8]).holds
