"""What the output of compute-sanitizer and of the calls under it amounts to."""

import re

PREFIX = "========="
# A report is of this package if a frame says so, or if nothing says whose it is.
ELSEWHERE = re.compile(r"^========= Host API|^=========\s+at (?!0x)\S", re.MULTILINE)
OURS = re.compile(r"^=========\s+(?:at|Device Frame:) .*(?:\bvitamin::|7vitamin)", re.MULTILINE)
REMARK = re.compile(rf"{PREFIX} (?:Error|Warning|Internal)\b")
SUMMARY = re.compile(
    r"(?:ERROR SUMMARY: (\d+) errors?|RACECHECK SUMMARY: (\d+) hazards? .*)$", re.MULTILINE
)
UNPRINTED = re.compile(r"(\d+) errors? (?:were|was) not printed")
CALLS = re.compile(r"^calls: (\d+) of (\d+), refused: (\d+), wrong: (\d+)$", re.MULTILINE)
HEADER = f"{'tool':10} {'errors':>6} {'calls':>14} {'refused':>7} {'wrong':>6}"
LIMIT = 200_000  # characters that digest() keeps
SAID_LIMIT = 40_000  # and said()


def reports(log):
    """The reports in a log: a headline at the margin and indented details each."""
    found = []
    for line in log.splitlines():
        text = line.removeprefix(PREFIX)
        indented = text.startswith("  ")
        if text.strip() and not indented:
            found.append([line])
        elif indented and found:
            found[-1].append(line)
    return ["\n".join(lines) for lines in found if len(lines) > 1]


def is_ours(report):
    return bool(OURS.search(report)) or not ELSEWHERE.search(report)


def initcheck_errors(log):
    """Errors in this package's kernels, and in all. An error that wasn't printed counts in both."""
    printed = [report for report in reports(log) if not REMARK.match(report)]
    unprinted = sum(map(int, UNPRINTED.findall(log)))
    ours = sum(map(is_ours, printed))
    return ours + unprinted, len(printed) + unprinted


def verdict(tool, status, log, text):
    """A line of the table and whether the tool is clean.

    status: the exit status of the process, None if it had to be killed. log: of the sanitizer.
    text: what the calls printed.
    """
    summary, calls = SUMMARY.findall(log), CALLS.search(text)
    if status is None:
        return f"{tool:10} did not end in time", False
    if not summary or not calls:
        return f"{tool:10} did not run to its end (exit status {status})", False
    notes = []
    errors = total = sum(int(a or b) for a, b in summary)
    if tool == "initcheck":
        errors, listed = initcheck_errors(log)
        if listed != total:
            notes.append(f"log not understood: {listed} errors listed, {total} in its summary")
            errors = max(total, listed)
        elif listed > errors:
            notes.append(f"{listed - errors} outside of the package's kernels ignored")
    done, of, refused, wrong = map(int, calls.groups())
    clean = errors == 0 and status == 0
    if not clean and errors == 0 and wrong == 0:
        notes.append(f"exit status {status}")
    line = f"{tool:10} {errors:6} {done:6} of {of:<4} {refused:7} {wrong:6}"
    return "   ".join([line, *notes]), clean


def digest(log, ours=False):
    """The log with the frames of the package alone, at most LIMIT characters of it.

    ours: leave out the reports on other code.
    """
    kept = [report for report in reports(log) if not ours or is_ours(report)]
    lines = [line for line in log.splitlines() if "SUMMARY" in line]
    for report in kept:
        lines += [
            line
            for line in report.splitlines()
            if "Host Frame" not in line or "vitamin" in line or "sanitize.py" in line
        ]
        lines.append(PREFIX)
    return shortened("\n".join(lines or [log]), LIMIT)


def said(text):
    """What the calls printed, less the announcements of calls that went on to another."""
    lines = text.splitlines() or [""]
    kept = [
        line
        for line, after in zip(lines, [*lines[1:], ""], strict=True)
        if not line.startswith("call: ") or not after.startswith(("call: ", "calls: "))
    ]
    return shortened("\n".join(kept), SAID_LIMIT)


def shortened(text, limit):
    """The first and the last of more than `limit` characters."""
    if len(text) > limit:
        text = f"{text[: limit // 2]}\n... cut here ...\n{text[-limit // 2 :]}"
    return text + "\n"
