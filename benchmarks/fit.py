"""Fits the constants of the Hopper cost model to recorded times.

    python benchmarks/fit.py [FILE.csv ...] [--steps N] [--seed N]

Reads the times of the kernels by name and number of K parts (default: those of benchmarks/results)
and varies the constants of namespace hopper in csrc/dispatch/cost.cpp and of namespace streams in
stream_cost.cpp beside it, two at a time, at random, from their present values on. It keeps what
lowers two things together: the error of the predictions, weighted towards the fast ways to run a
problem, and the regret: how much slower the way with the least prediction is than the best recorded
one. Problems of the benchmark's classes count more than random ones. The same seed gives the same
result.

Prints the constants before and after, error and regret with both, and the problems on which the
fitted model would lose more than 5 %. Changes no file: the numbers go into these files by hand.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
from dataclasses import dataclass
from pathlib import Path

if __package__ in (None, ""):
    # As in bench.py: profile.py beside this file must not hide the standard library's.
    sys.path.pop(0)
    sys.path.append(str(Path(__file__).resolve().parent.parent))

from benchmarks import model_sm90, model_streams, records
from benchmarks.model_sm90 import Constants, Fixed
from benchmarks.model_streams import AnyWay
from benchmarks.shapes import Shape

GPU = "H200"
ERROR_CAP = 0.6  # of a log ratio: what is hopeless anyway shouldn't shape the rest
FAST_POWER = 3  # a way that takes twice the best time counts an eighth
REGRET_WEIGHT = 0.15
NAMED_WEIGHT = 5  # of a problem of the benchmark's classes; a random one counts 1
STEP = 0.1  # standard deviation of a step's logarithm
TOLD_REGRET = 1.05
# What the constants mean bounds them: a tensor pipe can't be more than full.
BOUNDS = {
    "kWgmma": (1.0, 1.1),
    "kNarrow": (1.0, 1.1),
    "kRow": (1.5, 8.0),
    "kSharedRow": (1.5, 4.0),
    "kStreamClock": (0.7, 1.0),
    "kStreamDram": (0.7, 1.05),
}


@dataclass(frozen=True)
class Timed:
    """A way to run a problem, and the microseconds that it took."""

    shape: Shape
    way: AnyWay
    us: float
    named: bool = False  # in a class of the benchmark


@dataclass(frozen=True)
class Choice:
    """The recorded way with the least prediction, beside the best of the problem."""

    shape: Shape
    chosen: Timed
    best: Timed

    @property
    def regret(self) -> float:
        return self.chosen.us / self.best.us


def read_times(files: list[Path], given: Fixed) -> list[Timed]:
    """The recorded ways that select() would consider."""
    timed = []
    for row in records.read_all(files, records.SPLIT_COLUMNS):
        if row["kernel"] not in records.BASELINES and GPU in row["gpu"]:
            shape = records.shape_of(row)
            way = model_streams.way(shape, row["kernel"], int(row["splits"]), given)
            if way.allowed:
                named = row["suite"] != "random"
                timed.append(Timed(shape, way, float(row["time_us"]), named))
    return timed


class Fit:
    """Recorded times, and how well constants explain them."""

    def __init__(self, timed: list[Timed]):
        self.timed = timed
        self.groups: dict[Shape, list[int]] = {}
        for i, one in enumerate(timed):
            self.groups.setdefault(one.shape, []).append(i)
        self.best = {
            shape: min((timed[i] for i in group), key=lambda one: one.us)
            for shape, group in self.groups.items()
        }
        named = {one.shape for one in timed if one.named}
        weights = {shape: NAMED_WEIGHT if shape in named else 1 for shape in self.groups}
        mean = sum(weights.values()) / max(1, len(weights))
        self.problem_weights = {shape: weight / mean for shape, weight in weights.items()}
        self.weights = [
            (self.best[one.shape].us / one.us) ** FAST_POWER * self.problem_weights[one.shape]
            for one in timed
        ]

    def predict(self, constants: Constants) -> list[float]:
        return [one.way.predict(constants) for one in self.timed]

    def error(self, predicted: list[float]) -> float:
        """Root of the weighted mean square of the log ratios of prediction and time."""
        total = 0.0
        for one, us, weight in zip(self.timed, predicted, self.weights, strict=True):
            total += weight * min(abs(math.log(us / one.us)), ERROR_CAP) ** 2
        return math.sqrt(total / len(self.timed))

    def choices(self, predicted: list[float]) -> list[Choice]:
        found = []
        for shape, group in self.groups.items():
            chosen = self.timed[min(group, key=predicted.__getitem__)]
            found.append(Choice(shape, chosen, self.best[shape]))
        return found

    def regret(self, predicted: list[float]) -> float:
        """Geometric mean over the problems."""
        return records.geomean(choice.regret for choice in self.choices(predicted))

    def loss(self, constants: Constants) -> float:
        predicted = self.predict(constants)
        lost = [
            self.problem_weights[choice.shape] * math.log(choice.regret)
            for choice in self.choices(predicted)
        ]
        return self.error(predicted) ** 2 + REGRET_WEIGHT * sum(lost) / len(lost)

    def shown(self, constants: Constants) -> list[str]:
        """The constants that change any of the predictions."""
        before = self.predict(constants)
        return [
            name
            for name in constants
            if self.predict(constants | {name: constants[name] * 1.3}) != before
        ]


def _inside(constants: Constants) -> bool:
    return all(low <= constants[name] <= high for name, (low, high) in BOUNDS.items())


def _show_progress(done: int, steps: int) -> None:
    if sys.stderr.isatty() and (done == steps or done % max(1, steps // 100) == 0):
        filled = 40 * done // steps
        end = "\n" if done == steps else ""
        bar = "#" * filled + "." * (40 - filled)
        print(f"\r[{bar}] {done} of {steps} steps", end=end, file=sys.stderr, flush=True)


def search(fit: Fit, start: Constants, steps: int, seed: int) -> Constants:
    """The best constants of a random walk that only goes down."""
    chance = random.Random(seed)
    names = fit.shown(start)
    constants, loss = start, fit.loss(start)
    for done in range(1, steps + 1):
        tried = dict(constants)
        for name in chance.sample(names, 2):
            tried[name] *= math.exp(chance.gauss(0, STEP))
        if _inside(tried) and (tried_loss := fit.loss(tried)) < loss:
            constants, loss = tried, tried_loss
        _show_progress(done, steps)
    return constants


def _told(one: Timed) -> str:
    parts = f"/{one.way.splits}" if one.way.splits > 1 else ""
    return f"{one.way.kernel}{parts} {one.us:.1f} us"


def report(fit: Fit, start: Constants, fitted: Constants) -> list[str]:
    shown = fit.shown(start)
    lines = [f"{'constant':<20}{'present':>10}{'fitted':>10}"]
    for name, value in start.items():
        mark = "" if name in shown else "  held: no row depends on it"
        lines.append(f"{name:<20}{value:>10.4g}{fitted[name]:>10.4g}{mark}")
    before, after = fit.predict(start), fit.predict(fitted)
    lines += ["", f"{len(fit.timed)} times of {len(fit.groups)} problems"]
    for title, measure in (("error", fit.error), ("regret", fit.regret)):
        lines.append(f"{title:<20}{measure(before):>10.4f}{measure(after):>10.4f}")
    worst = [max(choice.regret for choice in fit.choices(p)) for p in (before, after)]
    lines.append(f"{'largest regret':<20}{worst[0]:>10.4f}{worst[1]:>10.4f}")
    for title, predicted in (("present", before), ("fitted", after)):
        for choice in fit.choices(predicted):
            if choice.regret > TOLD_REGRET:
                lines.append(
                    f"{title}: {choice.shape!s:<24} {choice.regret:.2f}  "
                    f"{_told(choice.chosen)}, best {_told(choice.best)}"
                )
    return lines


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE.csv")
    parser.add_argument("--steps", type=int, default=9000, help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=3, help="default: %(default)s")
    args = parser.parse_args(argv)
    from vitamin_hgemm.planning import device_facts

    given = model_sm90.fixed(device_facts(GPU))
    timed = read_times(args.files or sorted(records.RESULTS.glob("*.csv")), given)
    if not timed:
        print("no times of Hopper tiles by name and number of K parts", file=sys.stderr)
        return 2
    fit = Fit(timed)
    start = model_streams.read_constants()
    print("\n".join(report(fit, start, search(fit, start, args.steps, args.seed))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
