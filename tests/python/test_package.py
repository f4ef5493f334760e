"""The package imports without its optional parts, says its errors in Python's terms, and has stubs."""

import ast
import pathlib
import subprocess
import sys

import pytest

import offpath
from offpath import _core
from offpath.graph import Store

BLOCKED = """
import sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "torch_geometric", "plotly", "rich"):
            raise ImportError(f"{name} is blocked")
sys.meta_path.insert(0, Blocker())
"""


def run_blocked(code, environment):
    return subprocess.run(
        [sys.executable, "-c", BLOCKED + code], env=environment, capture_output=True, text=True, timeout=60
    )


def test_the_package_works_without_torch_and_torch_geometric(store, environment):
    done = run_blocked(
        "import offpath, offpath.graph, offpath.codec, offpath.report\n"
        f"b = next(iter(offpath.graph.sample_batches({store.folder!r}, [3, 2], batch_size=4, tensors='numpy')))\n"
        "print(b.features().shape[1], b.batch_size)",
        environment,
    )
    assert done.stdout == "8 4\n", done.stderr


def test_what_needs_torch_geometric_says_so(store, environment):
    done = run_blocked(
        f"import offpath.graph as g\ng.NeighborLoader({store.folder!r}, [3])", environment
    )
    assert "UnsupportedError" in done.stderr and "pip install torch torch_geometric" in done.stderr


def test_training_without_torch_says_so(store, environment):
    done = run_blocked(
        f"from offpath.__main__ import main\nsys.exit(main(['graph', 'train', {store.folder!r}]))", environment
    )
    assert done.returncode == 1 and "pip install torch" in done.stderr


def test_a_report_without_plotly_says_so(tmp_path, environment):
    (tmp_path / "r.jsonl").write_text('{"bench": "a", "case": "b", "ours": 1, "peer": 1, "ratio": 1}\n')
    done = run_blocked(
        f"from offpath.__main__ import main\nsys.exit(main(['report', {str(tmp_path / 'r.jsonl')!r}, "
        f"'-o', {str(tmp_path / 'r.html')!r}]))",
        environment,
    )
    assert done.returncode == 1 and "pip install plotly" in done.stderr
    assert not (tmp_path / "r.html").exists()


def test_every_error_is_an_offpath_error_and_the_builtin_that_means_the_same():
    kinds = {
        "invalid argument": ValueError,
        "corrupt data": ValueError,
        "not found": FileNotFoundError,
        "unavailable": ConnectionError,
        "timeout": TimeoutError,
        "resource exhausted": OSError,
        "unsupported": NotImplementedError,
        "internal": RuntimeError,
    }
    for code, builtin in kinds.items():
        error = offpath.errors.error_for(code, "what happened")
        assert isinstance(error, offpath.Error) and isinstance(error, builtin)
        assert error.code == code and str(error) == "what happened"


def test_errors_of_the_compiled_part_arrive_as_python_exceptions(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere") as caught:
        Store.open(tmp_path / "nowhere")
    assert isinstance(caught.value, offpath.NotFoundError) and caught.value.code == "not found"
    (tmp_path / "store.json").write_text("{")
    with pytest.raises(offpath.CorruptDataError, match="store.json"):
        Store.open(tmp_path)


def test_the_stub_names_everything_that_the_compiled_part_has():
    stub = pathlib.Path(_core.__file__).with_name("_core.pyi")
    tree = ast.parse(stub.read_text())
    assert (stub.parent / "py.typed").exists()
    classes = {n.name: n for n in tree.body if isinstance(n, ast.ClassDef)}
    functions = {n.name for n in tree.body if isinstance(n, ast.FunctionDef)}
    for name, value in vars(_core).items():
        if name.startswith("_") or name == "version":
            continue
        if isinstance(value, type):
            named = {n.name for n in classes[name].body if isinstance(n, ast.FunctionDef)}
            missing = {m for m in vars(value) if not m.startswith("_")} - named
            assert not missing, f"{name} lacks {missing}"
        else:
            assert name in functions, name


def test_python_m_offpath_names_its_commands():
    done = subprocess.run([sys.executable, "-m", "offpath", "dance"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "graph train" in done.stderr
