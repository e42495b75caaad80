"""Checkpoints that claim more than they hold: refused soon, in little memory, in one paragraph."""

from __future__ import annotations

import argparse
import subprocess
import sys
import textwrap
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jtrans.errors import EXIT_BAD_INPUT, JtransError
from jtrans.exchange.reformer_fairseq import import_checkpoint

FC1 = "decoder.layers.0.sublayers.1.fc1.weight"
ROWS = "decoder.embed_tokens.weight"


def far_too_large(shape: tuple[int, ...]) -> torch.Tensor:
    """Return a tensor of any size in four bytes."""
    return torch.zeros(()).expand(shape)


def meta(*shape: int) -> torch.Tensor:
    return torch.empty(shape, device="meta")


ARGUMENTS: dict[str, dict[str, Any]] = {
    "layers": {"decoder_layers": 10**10},
    "layers beyond 64 bits": {"decoder_layers": 10**30},
    "layers of 5,000 digits": {"decoder_layers": 10**5000},
    "negative layers": {"encoder_layers": -1},
    "feed-forward": {"encoder_ffn_embed_dim": 10**25, "decoder_ffn_embed_dim": 10**25},
    "feed-forward in 32 bits": {"encoder_ffn_embed_dim": 10**9, "decoder_ffn_embed_dim": 10**9},
    "width": {"encoder_embed_dim": 10**9, "decoder_embed_dim": 10**9},
    "heads": {"encoder_attention_heads": 10**9, "decoder_attention_heads": 10**9},
    "no heads": {"encoder_attention_heads": 0, "decoder_attention_heads": 0},
    "dropout": {"dropout": float("nan")},
    "dropout of 400 digits": {"dropout": 10**400},
    "a language": {"source_lang": "../../etc\n"},
    "a long name": {"arch": "x" * 10**7},
    "a long list": {"decoder_layers": [0] * 10**6},
    "a tensor": {"adaptive_softmax_cutoff": torch.zeros(3)},
}


def unusual(name: str) -> torch.Tensor:
    """Return a tensor of a layout or type about which torch warns."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        match name:
            case "sparse":
                return torch.sparse_coo_tensor(torch.zeros(2, 0), [], (10**6, 10**6))
            case "compressed":
                return torch.eye(12, 8).to_sparse_csr()
            case _:
                return torch.quantize_per_tensor(torch.zeros(12, 8), 0.1, 0, torch.qint8)


TENSORS: dict[str, dict[Any, Any]] = {
    "4 TB by strides of 0": {FC1: far_too_large((10**6, 10**6))},
    "a wide embedding": {ROWS: far_too_large((12, 10**11))},
    "overlapping rows": {FC1: torch.zeros(100_012).as_strided((100_000, 12), (1, 1))},
    "without data": {FC1: meta(12, 8)},
    "1 EB without data": {FC1: meta(10**9, 10**9)},
    "float8": {FC1: torch.zeros(12, 8).to(torch.float8_e4m3fn)},
    "complex": {FC1: torch.zeros(12, 8, dtype=torch.complex64)},
    "integers": {FC1: torch.zeros(12, 8, dtype=torch.int64)},
    "bool": {FC1: torch.zeros(12, 8, dtype=torch.bool)},
    "sparse": {FC1: torch.zeros(12, 8).to_sparse()},
    "4 TB sparse": {FC1: unusual("sparse")},
    "compressed rows": {FC1: unusual("compressed")},
    "quantised": {FC1: unusual("quantised")},
    "no tensor": {FC1: [[0.0] * 8] * 12},
    "a number": {FC1: 3},
    "no name": {3: torch.zeros(1)},
    "a scalar": {"decoder.layers.0.encoder_attn.in_proj_weight": torch.zeros(())},
    "no dimensions": {FC1: torch.zeros(())},
    "many dimensions": {FC1: torch.zeros((1,) * 60)},
    "no elements": {ROWS: torch.zeros(0, 8)},
    "a layer of 9,000 digits": {f"decoder.layers.{'9' * 9000}.fc1.bias": torch.zeros(1)},
    "a long name": {"decoder." + "x" * 10**6: torch.zeros(1)},
    "3,000 more": {f"decoder.layers.{n}.x": torch.zeros(1) for n in range(2, 3000)},
}
HOSTILE = [("args", name) for name in ARGUMENTS] + [("model", name) for name in TENSORS]


def change(original: Any, kind: str, name: str) -> None:
    if kind == "args":
        vars(original.args).update(ARGUMENTS[name])
    else:
        original.tensors.update(TENSORS[name])
    original.save()


def refused(original: Any, run: Path) -> JtransError:
    with pytest.raises(JtransError) as caught:
        import_checkpoint(original.checkpoint, run_folder=run, **original.options())
    assert caught.value.exit_code == EXIT_BAD_INPUT
    assert len(caught.value.message) < 400 and "\n" not in caught.value.message
    assert not run.exists()
    return caught.value


@pytest.mark.parametrize(("kind", "name"), HOSTILE, ids=lambda value: value)
def test_it_is_refused_in_one_short_sentence(
    make_original: Callable[..., Any], tmp_path: Path, kind: str, name: str
) -> None:
    original = make_original()
    change(original, kind, name)
    refused(original, tmp_path / "run")


@pytest.mark.thorough
def test_none_of_them_takes_a_gigabyte_or_long(
    make_original: Callable[..., Any], tmp_path: Path
) -> None:
    for number, (kind, name) in enumerate(HOSTILE):
        original = make_original()
        change(original, kind, name)
        original.checkpoint.rename(tmp_path / f"{number:02}.pt")
    script = tmp_path / "import_all.py"
    script.write_text(
        textwrap.dedent("""
        import resource, sys, time
        from pathlib import Path
        from jtrans.errors import JtransError
        from jtrans.exchange.reformer_fairseq import import_checkpoint
        from jtrans.models.zoo import build_model, system_configs

        system_configs()
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + 10**9, used + 10**9))
        folder = Path(sys.argv[1])
        dicts = folder / "dict.de.txt", folder / "dict.en.txt"
        for path in sorted(folder.glob("*.pt")):
            begin = time.process_time()
            try:
                import_checkpoint(path, source_dict=dicts[0], target_dict=dicts[1],
                                  run_folder=folder / "run")
            except JtransError:
                print(path.stem, time.process_time() - begin)
    """)
    )
    outcome = subprocess.run(
        [sys.executable, str(script), str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert outcome.returncode == 0, outcome.stderr
    seconds = dict(line.split() for line in outcome.stdout.splitlines())
    assert len(seconds) == len(HOSTILE)
    slow = {HOSTILE[int(n)]: time for n, time in seconds.items() if float(time) > 10.0}
    assert not slow


def test_one_matrix_under_thousands_of_names_is_refused(
    make_original: Callable[..., Any], tmp_path: Path
) -> None:
    original = make_original()
    matrix = torch.zeros(1000, 1000)
    original.tensors |= {f"decoder.layers.{n}.x": matrix for n in range(2, 3000)}
    original.save()
    assert "share" in refused(original, tmp_path / "run").message


def test_parts_that_share_their_bytes_are_refused(
    make_original: Callable[..., Any], tmp_path: Path
) -> None:
    original = make_original()
    with zipfile.ZipFile(original.checkpoint, "a") as archive:
        archive.writestr("end", "")  # writes the list of parts anew
        archive.filelist *= 20
    assert "has parts that overlap" in refused(original, tmp_path / "run").message


def test_a_packed_file_and_one_of_too_many_objects_are_refused(
    make_original: Callable[..., Any], tmp_path: Path
) -> None:
    original = make_original()
    packed = tmp_path / "packed.pt"
    with (
        zipfile.ZipFile(original.checkpoint) as old,
        zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as new,
    ):
        for part in old.namelist():
            new.writestr(part, old.read(part))
    packed.replace(original.checkpoint)
    assert "is compressed" in refused(original, tmp_path / "run").message
    original.save(extra_state=[{str(n): torch.zeros(1)[:] for n in range(10_100)}])
    assert "parts" in refused(original, tmp_path / "run").message
    original.save(extra_state=[str(n) for n in range(600_000)])
    assert "describes too many objects" in refused(original, tmp_path / "run").message
    original.save(extra_state=bytearray(10))
    assert "bytearray" in refused(original, tmp_path / "run").message
    content = torch.load(original.checkpoint, weights_only=False)
    torch.save(content, original.checkpoint, _use_new_zipfile_serialization=False)
    assert "bytearray" in refused(original, tmp_path / "run").message


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**30), 10**30),
    st.floats(),
    st.text(max_size=20),
    st.lists(st.integers(), max_size=3),
    st.sampled_from([10**10, 10**25, 2**31, 2**63, 2**64, 1, 2, 8, 12, "attn", "max", "cat"]),
)
SHAPES = st.lists(st.sampled_from([0, 1, 2, 4, 8, 12, 24, 10**6, 2**31, 2**40]), max_size=4).map(
    tuple
)


@st.composite
def mutations(draw: st.DrawFn) -> tuple[str, str, Any]:
    names = ["width", "decoder_layers", "encoder_layers", "decoder_embed_dim", "encoder_embed_dim",
             "decoder_ffn_embed_dim", "encoder_ffn_embed_dim", "decoder_attention_heads", "arch",
             "encoder_attention_heads", "dropout", "layer_chain", "decoder_input_layer",
             "decoder_output_layer", "share_all_embeddings", "decoder_normalize_before",
             "source_lang", "encoder_learned_pos", "adaptive_softmax_cutoff"]  # fmt: skip
    match draw(st.sampled_from(["argument", "delete argument", "tensor", "delete tensor"])):
        case "argument":
            return "argument", draw(st.sampled_from(names)), draw(VALUES)
        case "delete argument":
            return "delete argument", draw(st.sampled_from(names)), None
        case "delete tensor":
            return "delete tensor", str(draw(st.integers(0, 60))), None
        case _:
            kind = draw(st.sampled_from(["expand", "meta", "float8", "half", "value"]))
            return kind, str(draw(st.integers(0, 60))), draw(SHAPES)


def mutate(original: Any, kind: str, name: str, value: Any) -> None:
    tensors, arguments = original.tensors, vars(original.args)
    if kind == "argument":
        arguments[name] = value
    elif kind == "delete argument":
        arguments.pop(name, None)
    else:
        name = sorted(tensors)[int(name) % len(tensors)]
        if kind == "delete tensor":
            del tensors[name]
        elif kind == "expand":
            size = 1
            for part in value:
                size *= part
            tensors[name] = far_too_large(value if size < 2**60 else (2**40, 2))
        elif kind != "value" and not isinstance(tensors[name], torch.Tensor):
            pass  # an earlier change made it something else
        elif kind == "meta":
            tensors[name] = meta(*tensors[name].shape)
        elif kind == "float8":
            tensors[name] = tensors[name].to(torch.float8_e5m2)
        elif kind == "half":
            tensors[name] = tensors[name].half()
        else:
            tensors[name] = value


@given(
    kind=st.sampled_from(["reformer-fast", "reformer-base", "transformer"]),
    changes=st.lists(mutations(), min_size=1, max_size=3),
    is_zip=st.booleans(),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
def test_a_changed_checkpoint_is_imported_or_refused_in_one_sentence(
    make_original: Callable[..., Any],
    tmp_path_factory: pytest.TempPathFactory,
    kind: str,
    changes: list[tuple[str, str, Any]],
    is_zip: bool,
) -> None:
    original = make_original(kind)
    original.args = argparse.Namespace(**vars(original.args))
    for mutation in changes:
        mutate(original, *mutation)
    content = {"args": original.args, "model": original.tensors}
    torch.save(content, original.checkpoint, _use_new_zipfile_serialization=is_zip)
    run = tmp_path_factory.mktemp("runs") / "run"
    try:
        import_checkpoint(original.checkpoint, run_folder=run, **original.options())
    except JtransError as error:
        assert error.exit_code == EXIT_BAD_INPUT
        assert len(error.message) < 400 and "\n" not in error.message
        assert not run.exists()
