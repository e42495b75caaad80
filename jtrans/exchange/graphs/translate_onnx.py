"""Translate with an exported model and onnxruntime alone: python translate_onnx.py < in > out.

Lines are segmented as in training, with spaces between words; they are lower-cased if the training
text was. The search is greedy: it always chooses the most probable token.
"""

import hashlib
import json
import os
import re
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnxruntime

if sys.argv[1:]:
    sys.exit(__doc__)
PAD, EOS, UNK, SPARE = range(4)
folder = Path(__file__).parent
digests = json.loads((folder / "sha256.json").read_text(encoding="utf-8"))
for name in ("export.json", "pipeline.json", "start.onnx", "step.onnx"):
    file = folder / name
    if not file.is_file() or hashlib.sha256(file.read_bytes()).hexdigest() != digests.get(name):
        sys.exit(f"error: {file} is missing or was changed after the export: export again")
facts = json.loads((folder / "export.json").read_text(encoding="utf-8"))
pipeline = json.loads((folder / "pipeline.json").read_text(encoding="utf-8"))
tokens = {side: pipeline[side]["vocabulary"]["tokens"] for side in ("source", "target")}
counts = pipeline["source"]["vocabulary"]["counts"]
words = [*enumerate(tokens["source"])][SPARE + 1 :]  # special and filler tokens are not words
filler = re.compile("madeupword[0-9]{4,}")
ids = {word: number for number, word in words if counts[number] or not filler.fullmatch(word)}
codes = [tuple(line.split()) for line in (pipeline["source"]["codes"] or "").splitlines()]
is_old = codes[:1] != [("#version:", "0.2")]  # version 0.1: </w> is a symbol of its own
ranks = {pair: rank for rank, pair in enumerate(codes)}
halves = {"".join(pair): pair for pair in reversed(codes) if pipeline["source"].get("spell")}
factor, plus = facts["limit"]  # longest translation: factor times the source tokens, plus a number
names = [tensor["name"] for tensor in facts["state"]]
changing = [tensor["name"] for tensor in facts["state"] if tensor["changes"]]
start, step = (onnxruntime.InferenceSession(folder / f"{x}.onnx") for x in ("start", "step"))


def split(word: str) -> list[str]:
    """Split a word into BPE pieces."""
    pieces = [*word[:-1], f"{word[-1]}</w>"] if ranks else [f"{word}</w>"]
    if ranks and is_old:
        pieces = [*word, "</w>"]
    while pairs := [(ranks[p], i) for i, p in enumerate(pairwise(pieces)) if p in ranks]:
        place = min(pairs)[1]
        pieces[place : place + 2] = ["".join(pieces[place : place + 2])]
    if pieces[-1] == "</w>":
        pieces[-2:] = [f"{pieces[-2]}</w>"]
    bare = pieces[-1].removesuffix("</w>")
    if ranks and bare.endswith("@@"):  # as a token it would look like part of a word
        pieces[-1:] = [bare[:-1], "@</w>"]
    *first, last = pieces
    return [known for piece in first for known in spell(piece)] + spell(last, is_last=True)


def spell(piece: str, *, is_last: bool = False) -> list[str]:
    """Undo merges of a piece that is not in the vocabulary."""
    token = piece.removesuffix("</w>") if is_last else f"{piece}@@"
    if token in ids or piece not in halves:
        return [token]
    first, second = halves[piece]
    return spell(first) + spell(second, is_last=is_last)


for number, data in enumerate(sys.stdin.buffer, start=1):
    try:
        line = data.decode("utf-8-sig")  # whatever the system's encoding
    except UnicodeDecodeError:
        sys.exit(f"error: line {number} is not UTF-8 text")
    line = line.lower() if pipeline["source"]["lowercase"] else line
    source = [ids.get(piece, UNK) for word in line.split() for piece in split(word)] + [EOS]
    if len(source) > (longest := facts["longest"]):
        sys.exit(f"error: line {number} has {len(source)} tokens, more than {longest}")
    log_probs, *values = start.run(None, {"source": np.array([source])})
    state = dict(zip(names, values, strict=True))
    output: list[str] = []
    limit = max(2, min(int(round(factor * len(source) + plus, 6)), longest)) - 1  # without EOS
    while len(source) > 1 and len(output) < limit:
        log_probs[:, [PAD, SPARE, *([] if output else [EOS])]] = -np.inf
        token = log_probs.argmax(axis=1)
        if token[0] == EOS:
            break
        output.append(tokens["target"][token[0]])
        inputs = {"token": token, "position": np.array(len(output)), **state}
        log_probs, *values = step.run(None, inputs)
        state.update(zip(changing, values, strict=True))
    text = f"{' '.join(output)} "  # the last word may be unfinished
    text = (text.replace("@@ ", "") if pipeline["target"]["codes"] else text).rstrip(" ")
    try:
        sys.stdout.buffer.write(f"{text}\n".encode())
        sys.stdout.buffer.flush()
    except BrokenPipeError:  # the reader has quit (head)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        break
