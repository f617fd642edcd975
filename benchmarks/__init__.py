"""The benchmark, its shapes and its plots: run bench.py, plot.py and profile.py as scripts."""
