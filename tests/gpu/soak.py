"""Thousands of launches of mixed shapes by each of some kernels: what the tests of Hopper run.

    python tests/gpu/soak.py SEED LAUNCHES KERNEL...

The kernels are asked for the layouts that they take, in rows of whole 16 bytes. Prints two lines a
kernel and type, before and after. Exits with 1 after wrong results, and at once, with a traceback,
when the launches of a kernel aren't done in SECONDS.
"""

import faulthandler
import itertools
import math
import os
import random
import subprocess
import sys
from pathlib import Path

import torch
from calls import LAYOUTS, padded, table
from reference import ACTIVATIONS, judge

import vitamin_hgemm

SECONDS = 60
TINY = [(1, 1, 8), (1, 9, 2), (3, 5, 40), (17, 8, 16), (63, 65, 24), (64, 64, 64), (100, 120, 72)]
# K from nothing to six k-tiles of 64: shorter than, as long as and longer than any ring.
SHALLOW = [
    (m, n, k)
    for m, n in ((200, 300), (129, 258))
    for k in (0, 1, 8, 16, 63, 64, 65, 128, 200, 320, 384, 390)
]
RAGGED = [(129, 257, 520), (127, 255, 1000), (257, 513, 333), (1, 515, 4097), (515, 1, 4097)]
# K that production kernels cut into parts.
DEEP = [(16, 24, 2048), (100, 60, 9000), (61, 1000, 5003)]
# Of 128x256 elements, more tiles than an H100 or H200 has SMs: a persistent block takes several.
MANY_TILES = [(2056, 2312, 200), (1, 68000, 72), (34000, 3, 72)]


class Product:
    """One product of its own shape, epilogue and way in which the output lies in memory."""

    def __init__(self, index, m, n, k, dtype, layout):
        self.a = padded(m, k, dtype, "cuda", layout[0])
        self.b = padded(k, n, dtype, "cuda", layout[1])
        kind = torch.float32 if index % 5 == 4 else dtype
        lies = (
            torch.empty(m, n, dtype=kind, device="cuda"),
            torch.empty(m, -(-n // 8) * 8, dtype=kind, device="cuda")[:, :n],
            torch.empty(n, m, dtype=kind, device="cuda").t(),
        )
        self.out = lies[index % 3]
        self.epilogue = {
            "bias": torch.randn(n, dtype=dtype, device="cuda") if index % 2 else None,
            "activation": list(ACTIVATIONS)[index // 2 % len(ACTIVATIONS)],
        }
        self.options = {"out_dtype": None if kind == dtype else kind, **self.epilogue}

    def launch(self, name):
        torch.ops.vitamin.hgemm.out(self.a, self.b, kernel=name, out=self.out, **self.options)

    def verdict(self):
        return judge(self.out, self.a, self.b, **self.epilogue)


def products(dtype, layouts):
    mixed = [(*random.choices(range(1, 700), k=2), random.randrange(2, 900)) for _ in range(20)]
    shapes = TINY + SHALLOW + RAGGED + DEEP + MANY_TILES + mixed
    return [Product(i, *shape, dtype, random.choice(layouts)) for i, shape in enumerate(shapes)]


def soak(name, work, launches):
    """So many launches, the last ones into NaN. Returns what is wrong with their results."""
    for _ in range(launches - len(work)):
        random.choice(work).launch(name)
    for product in work:
        product.out.fill_(math.nan)
        product.launch(name)
    torch.cuda.synchronize()
    verdicts = [(product, product.verdict()) for product in work]
    return [f"{tuple(p.a.shape)} @ {tuple(p.b.shape)}: {v}" for p, v in verdicts if not v]


def main(seed, launches, names):
    random.seed(seed)
    torch.manual_seed(seed)
    failed = False
    for dtype, name in itertools.product((torch.float16, torch.bfloat16), names):
        layouts = table()[name]["layouts"]
        work = products(dtype, LAYOUTS if layouts == "all" else [layouts])
        torch.cuda.synchronize()
        print(f"{name} {dtype}", flush=True)
        faulthandler.dump_traceback_later(SECONDS, exit=True)
        wrong = soak(name, work, launches)
        faulthandler.cancel_dump_traceback_later()
        failed |= bool(wrong)
        print("\n".join(wrong) or "right", flush=True)
    return int(failed)


def soak_apart(seed, launches, names):
    """Does so in a process of its own, which a hang of one of the kernels would end."""
    here = Path(__file__)
    folders = [Path(vitamin_hgemm.__file__).parents[1], here.parents[1]]
    path = os.pathsep.join([*map(str, folders), os.environ.get("PYTHONPATH", "")])
    run = subprocess.run(
        [sys.executable, here, str(seed), str(launches), *names],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=max(400, 12 * len(names)),
        check=False,
    )
    assert run.returncode == 0, f"{run.stdout}\n{run.stderr}"
    assert run.stdout.count("right") == 2 * len(names)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]))
