"""Small checkpoints in the original code's format, and what that code would compute from them.

`original_logits` is written from the description of the original (published settings and
layer order), on the checkpoint's own tensors and names; it shares nothing with jtrans.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

SOURCE_WORDS = ["das", "haus", "ist", "alt", "un@@", "neu"]
TARGET_WORDS = ["the", "house", "is", "old", "un@@", "new", "a", "b"]
Tensors = dict[str, Tensor]


@dataclass
class Original:
    """A checkpoint file with its dictionaries, and what went into it."""

    checkpoint: Path
    source_dict: Path
    target_dict: Path
    args: argparse.Namespace
    tensors: Tensors

    def options(self, **changes: Any) -> dict[str, Any]:
        """Return the keyword arguments of an import."""
        return {"source_dict": self.source_dict, "target_dict": self.target_dict} | changes

    def save(self, **changes: Any) -> None:
        """Write the file again, with other content."""
        content = {"args": self.args, "model": self.tensors, "optimizer_history": []} | changes
        torch.save(content, self.checkpoint)


@pytest.fixture
def make_original(tmp_path: Path) -> Callable[..., Original]:
    """Return a function that writes a checkpoint of the given architecture and arguments."""

    def make(kind: str = "reformer-fast", **changes: Any) -> Original:
        args = argparse.Namespace(**(arguments(kind) | changes))
        source = target = TARGET_WORDS if args.share_all_embeddings else SOURCE_WORDS
        target = TARGET_WORDS
        files = [tmp_path / "dict.de.txt", tmp_path / "dict.en.txt"]
        for file, words in zip(files, (source, target), strict=True):
            lines = [f"{word} {100 - n}\n" for n, word in enumerate(words)]
            file.write_text("".join(lines), encoding="utf-8")
        tensors = original_tensors(args, len(source) + 4, len(target) + 4)
        original = Original(tmp_path / "checkpoint_best.pt", files[0], files[1], args, tensors)
        original.save(optimizer_history=[{"num_updates": 7}])
        return original

    return make


def arguments(kind: str) -> dict[str, Any]:
    """Return what the original saves besides the tensors, as far as it concerns the model."""
    is_joint = kind != "transformer"
    values = {
        "arch": "my_own_architecture",
        "source_lang": "de",
        "target_lang": "en",
        "encoder_embed_dim": 8,
        "encoder_ffn_embed_dim": 12,
        "encoder_attention_heads": 2,
        "encoder_layers": 0 if kind == "reformer-base" else 1,
        "encoder_normalize_before": kind != "reformer-base",
        "decoder_embed_dim": 8,
        "decoder_ffn_embed_dim": 12,
        "decoder_attention_heads": 2,
        "decoder_layers": 2,
        "decoder_normalize_before": True,
        "dropout": 0.25,
        "attention_dropout": 0.125,
        "relu_dropout": 0.0,
        "adaptive_softmax_cutoff": None,
        "encoder_learned_pos": False,
        "decoder_learned_pos": False,
        "no_token_positional_embeddings": False,
        "share_decoder_input_output_embed": False,
        "share_all_embeddings": False,
    }
    joint = {
        "decoder_input_layer": "add",
        "decoder_output_layer": "attn",
        "src_tgt_embed": False,
        "layer_chain": "attn1d:dec+ffn2d:dec+attn1d:enc+ffn2d:enc",
    }
    return values | (joint if is_joint else {})


def original_tensors(args: argparse.Namespace, source: int, target: int) -> Tensors:
    """Return random tensors under the original's names."""
    torch.manual_seed(1)
    E, F_ = args.encoder_embed_dim, args.encoder_ffn_embed_dim
    is_joint = hasattr(args, "layer_chain")
    G = 2 * E if is_joint and args.decoder_input_layer == "cat" else E
    t: Tensors = {"encoder.version": torch.tensor([2.0]), "decoder.version": torch.tensor([2.0])}

    def add(name: str, *shape: int) -> None:
        t[name] = torch.randn(*shape) * 0.5

    def norm(name: str, width: int) -> None:
        t[f"{name}.weight"], t[f"{name}.bias"] = 1 + 0.1 * torch.randn(width), torch.randn(width)

    def attention(name: str, width: int) -> None:
        add(f"{name}.in_proj_weight", 3 * width, width)
        add(f"{name}.in_proj_bias", 3 * width)
        add(f"{name}.out_proj.weight", width, width)
        add(f"{name}.out_proj.bias", width)

    def ffn(name: str, width: int) -> None:
        add(f"{name}.fc1.weight", F_, width)
        add(f"{name}.fc1.bias", F_)
        add(f"{name}.fc2.weight", width, F_)
        add(f"{name}.fc2.bias", width)

    for side, size in (("encoder", source), ("decoder", target)):
        add(f"{side}.embed_tokens.weight", size, E)
        t[f"{side}.embed_tokens.weight"][1] = 0.0  # <pad>
        t[f"{side}.embed_positions._float_tensor"] = torch.zeros(1)
    if args.share_all_embeddings:
        t["encoder.embed_tokens.weight"] = t["decoder.embed_tokens.weight"]
    elif not args.share_decoder_input_output_embed:
        add("decoder.embed_out", target, G)
    for n in range(args.encoder_layers):
        layer = f"encoder.layers.{n}"
        attention(f"{layer}.self_attn", E)
        ffn(layer, E)
        norm(f"{layer}.layer_norms.0", E)
        norm(f"{layer}.layer_norms.1", E)
    if args.encoder_normalize_before:
        norm("encoder.layer_norm", E)
    for n in range(args.decoder_layers):
        layer = f"decoder.layers.{n}"
        if is_joint:
            for k in range(4):
                block = f"{layer}.sublayers.{k}"
                ffn(block, G) if k % 2 else attention(f"{block}.self_attn", G)
                norm(f"{block}.layer_norm", G)
        else:
            attention(f"{layer}.self_attn", E)
            attention(f"{layer}.encoder_attn", E)
            ffn(layer, E)
            for name in ("self_attn", "encoder_attn", "final"):
                norm(f"{layer}.{name}_layer_norm", E)
    if args.decoder_normalize_before:
        norm("decoder.layer_norm", G)
    if is_joint:
        norm("decoder.output_layer.reduction.layer_norm", G)
        if args.decoder_output_layer == "attn":
            add("decoder.output_layer.reduction.weights", G, G)
        if args.src_tgt_embed:
            add("encoder.src_embed", E)
            add("decoder.tgt_embed", E)
    return t


class Forward:
    """The original's forward pass for one sentence, in its own order of ids."""

    def __init__(self, args: argparse.Namespace, tensors: Tensors) -> None:
        self.args, self.t = args, tensors
        self.heads = args.encoder_attention_heads

    def logits(self, source: list[int], target_in: list[int]) -> Tensor:
        a = self.args
        u = self.embed("encoder", source, "encoder.src_embed")
        pre = a.encoder_normalize_before
        for n in range(a.encoder_layers):
            layer = f"encoder.layers.{n}"
            u = self.block(u, f"{layer}.layer_norms.0", pre, self.attend, f"{layer}.self_attn")
            u = self.block(u, f"{layer}.layer_norms.1", pre, self.ffn, layer)
        u = self.norm(u, "encoder.layer_norm") if pre else u
        v = self.embed("decoder", target_in, "decoder.tgt_embed")
        x = self.joint(u, v) if hasattr(a, "layer_chain") else self.decoder(u, v)
        x = self.norm(x, "decoder.layer_norm") if a.decoder_normalize_before else x
        return x @ self.t.get("decoder.embed_out", self.t["decoder.embed_tokens.weight"]).T

    def joint(self, u: Tensor, v: Tensor) -> Tensor:
        pre = self.args.decoder_normalize_before
        S, T = len(u), len(v)
        if self.args.decoder_input_layer == "cat":
            pairs = [torch.stack([torch.cat([u[i], v[j]]) for i in range(S)]) for j in range(T)]
            x = torch.stack(pairs)  # [T, S, 2E]
        else:
            x = torch.stack([u + v[j] for j in range(T)])  # [T, S, E]
        for n in range(self.args.decoder_layers):
            k0, k1, k2, k3 = (f"decoder.layers.{n}.sublayers.{k}" for k in range(4))
            x = x.transpose(0, 1)  # [S, T, E]
            x = self.block(x, f"{k0}.layer_norm", pre, self.attend_causally, f"{k0}.self_attn")
            x = x.transpose(0, 1)
            x = self.block(x, f"{k1}.layer_norm", pre, self.ffn, k1)
            x = self.block(x, f"{k2}.layer_norm", pre, self.attend, f"{k2}.self_attn")
            x = self.block(x, f"{k3}.layer_norm", pre, self.ffn, k3)
        reduction = "decoder.output_layer.reduction"
        x = self.norm(x, f"{reduction}.layer_norm") if pre else x
        if self.args.decoder_output_layer == "max":
            x = x.max(dim=1).values
        else:
            x = (torch.softmax(x @ self.t[f"{reduction}.weights"].T, dim=1) * x).sum(dim=1)
        return x if pre else self.norm(x, f"{reduction}.layer_norm")

    def decoder(self, u: Tensor, v: Tensor) -> Tensor:
        pre = self.args.decoder_normalize_before
        for n in range(self.args.decoder_layers):
            layer = f"decoder.layers.{n}"
            names = [
                f"{layer}.{name}_layer_norm" for name in ("self_attn", "encoder_attn", "final")
            ]
            v = self.block(v, names[0], pre, self.attend_causally, f"{layer}.self_attn")
            cross = f"{layer}.encoder_attn"
            v = self.block(v, names[1], pre, lambda x, name: self.attend(x, name, u), cross)
            v = self.block(v, names[2], pre, self.ffn, layer)
        return v

    def embed(self, side: str, ids: list[int], extra: str) -> Tensor:
        x = self.t[f"{side}.embed_tokens.weight"][ids]
        x = (x + self.t[extra] if extra in self.t else x) * math.sqrt(x.shape[-1])
        half = x.shape[-1] // 2
        rates = torch.exp(torch.arange(half) * -(math.log(10000) / (half - 1)))
        angles = torch.arange(2, 2 + len(ids))[:, None] * rates
        return x + torch.cat([angles.sin(), angles.cos()], dim=1)

    def norm(self, x: Tensor, name: str) -> Tensor:
        return F.layer_norm(x, x.shape[-1:], self.t[f"{name}.weight"], self.t[f"{name}.bias"])

    def block(
        self, x: Tensor, norm: str, pre: bool, f: Callable[[Tensor, str], Tensor], name: str
    ) -> Tensor:
        return x + f(self.norm(x, norm), name) if pre else self.norm(x + f(x, name), norm)

    def ffn(self, x: Tensor, name: str) -> Tensor:
        hidden = F.linear(x, self.t[f"{name}.fc1.weight"], self.t[f"{name}.fc1.bias"]).relu()
        return F.linear(hidden, self.t[f"{name}.fc2.weight"], self.t[f"{name}.fc2.bias"])

    def attend_causally(self, x: Tensor, name: str) -> Tensor:
        return self.attend(x, name, causal=True)

    def attend(
        self, x: Tensor, name: str, memory: Tensor | None = None, causal: bool = False
    ) -> Tensor:
        m = x if memory is None else memory
        parts = zip(
            (x, m, m),
            self.t[f"{name}.in_proj_weight"].chunk(3),
            self.t[f"{name}.in_proj_bias"].chunk(3),
            strict=True,
        )
        q, k, v = (F.linear(a, w, b).unflatten(-1, (self.heads, -1)) for a, w, b in parts)
        scores = torch.einsum("...qhd,...khd->...hqk", q, k) / math.sqrt(q.shape[-1])
        if causal:
            scores = scores + torch.full(scores.shape[-2:], -torch.inf).triu(1)
        mixed = torch.einsum("...hqk,...khd->...qhd", scores.softmax(-1), v).flatten(-2)
        return F.linear(mixed, self.t[f"{name}.out_proj.weight"], self.t[f"{name}.out_proj.bias"])


@pytest.fixture
def original_logits() -> Callable[[Original, list[int], list[int]], Tensor]:
    """Return the original's computation: [T, V] in its own order of ids."""

    def compute(original: Original, source: list[int], target_in: list[int]) -> Tensor:
        return Forward(original.args, original.tensors).logits(source, target_in)

    return compute
