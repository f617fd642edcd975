"""The columns of a profile: which metrics of Nsight Compute give them, and how they are shown.

Names are those of several versions and chips: of each column the first one that exists is taken.
"""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.ncu import Metrics


@dataclass(frozen=True)
class Report:
    """What is read of one launch, what is derived from it, and the columns of the printed table."""

    metrics: Metrics
    derived: dict[str, tuple[float, str, str | None]]  # column: factor · part / whole
    table: dict[str, tuple[str, str, float, int]]  # column: two lines of title, factor, digits


_WAVEFRONTS = "l1tex_data_pipe_lsu_wavefronts_mem_shared"
_CONFLICTS = "l1tex_data_bank_conflicts_pipe_lsu_mem_shared"


def _sass(counter: str, *ops: str) -> tuple[str, ...]:
    # Counted for the named instruction alone, from its addresses.
    return tuple(f"{unit}__sass_{counter}_{op}.sum" for op in ops for unit in ("sm", "smsp"))


def _copies(counter: str) -> tuple[str, ...]:
    of_chip = "l1tex__" + counter.removeprefix("l1tex_") + "_op_ldgsts"
    variants = ("op_ldgsts_cache_bypass", "op_ldgsts")
    return (*_sass(counter, *variants), f"{of_chip}_cache_bypass.sum", f"{of_chip}.sum")


_COMMON: dict[str, tuple[str, ...]] = {
    "time_ns": ("gpu__time_duration.sum",),
    # Shared memory as the chip counts it: what loses the arbitration counts as a conflict too.
    "load_wavefronts": ("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",),
    "load_conflicts": ("l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",),
    "store_wavefronts": ("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",),
    "store_conflicts": ("l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",),
    "tensor_pct": (
        "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
        "sm__pipe_tensor_op_hmma_cycles_active.avg.pct_of_peak_sustained_active",
        "sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active",
    ),
    "l2_hit_pct": ("lts__t_sector_hit_rate.pct",),
    "dram_read_bytes": ("dram__bytes_read.sum", "dram__bytes_op_read.sum"),
    "dram_write_bytes": ("dram__bytes_write.sum", "dram__bytes_op_write.sum"),
    "warps_active_pct": ("sm__warps_active.avg.pct_of_peak_sustained_active",),
    "registers": ("launch__registers_per_thread",),
    "shared_bytes": ("launch__shared_mem_per_block",),
}

_CONFLICT_SHARES = {
    "load_conflict_pct": (100, "load_conflicts", "load_wavefronts"),
    "store_conflict_pct": (100, "store_conflicts", "store_wavefronts"),
}

LADDER = Report(
    _COMMON
    | {
        # By instruction.
        "ldmatrix_wavefronts": _sass(_WAVEFRONTS, "op_ldsm"),
        "ldmatrix_conflicts": _sass(_CONFLICTS, "op_ldsm"),
        "sts_wavefronts": _sass(_WAVEFRONTS, "op_st"),
        "sts_conflicts": _sass(_CONFLICTS, "op_st"),
        "cp_async_wavefronts": _copies(_WAVEFRONTS),
        "cp_async_conflicts": _copies(_CONFLICTS),
        "cp_async_instructions": (
            "smsp__inst_executed_op_ldgsts.sum",
            "sm__sass_inst_executed_op_ldgsts.sum",
            "smsp__sass_inst_executed_op_ldgsts.sum",
        ),
        # All shared accesses, against what their widths and addresses need at least.
        "shared_wavefronts": ("memory_l1_wavefronts_shared",),
        "shared_wavefronts_ideal": ("memory_l1_wavefronts_shared_ideal",),
        "store_sectors": ("l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",),
        "store_requests": ("l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",),
        "store_bytes_per_sector": (
            "smsp__sass_average_data_bytes_per_sector_mem_global_op_st.ratio",
            "sm__sass_average_data_bytes_per_sector_mem_global_op_st.ratio",
        ),
    },
    _CONFLICT_SHARES
    | {
        "ldmatrix_conflict_pct": (100, "ldmatrix_conflicts", "ldmatrix_wavefronts"),
        "sts_conflict_pct": (100, "sts_conflicts", "sts_wavefronts"),
        "cp_async_conflict_pct": (100, "cp_async_conflicts", "cp_async_wavefronts"),
        "store_sectors_per_request": (1, "store_sectors", "store_requests"),
    },
    {
        "time_ns": ("time", "us", 1e-3, 1),
        "tensor_pct": ("tensor", "%", 1, 1),
        "load_conflict_pct": ("loads", "confl.%", 1, 2),
        "ldmatrix_conflict_pct": ("ldmatrix", "confl.%", 1, 2),
        "store_conflict_pct": ("stores", "confl.%", 1, 2),
        "cp_async_wavefronts": ("cp.async", "wavef. M", 1e-6, 2),
        "cp_async_conflict_pct": ("cp.async", "confl.%", 1, 2),
        "shared_wavefronts": ("shared", "wavef. M", 1e-6, 2),
        "shared_wavefronts_ideal": ("ideal", "wavef. M", 1e-6, 2),
        "l2_hit_pct": ("L2", "hits %", 1, 1),
        "dram_read_bytes": ("DRAM", "read MB", 1e-6, 1),
        "store_sectors_per_request": ("store", "sect./rq", 1, 2),
        "store_bytes_per_sector": ("store", "B/sector", 1, 1),
        "registers": ("regs", "", 1, 0),
    },
)

# What a warp waits for. "selected" is the warp that issues: together they are all warp-cycles.
STALLS = (
    *("long_scoreboard", "short_scoreboard", "gmma", "barrier", "membar", "wait", "sleeping"),
    *("math_pipe_throttle", "mio_throttle", "lg_throttle", "tex_throttle", "branch_resolving"),
    *("dispatch_stall", "no_instruction", "imc_miss", "drain", "misc", "not_selected", "selected"),
)


def _stall(reason: str) -> tuple[str, ...]:
    names = (reason, "warpgroup_arrive") if reason == "gmma" else (reason,)
    return tuple(f"smsp__average_warps_issue_stalled_{n}_per_issue_active.ratio" for n in names)


_BANKS = {
    # The data banks serve every reader and writer: WGMMA's operands and TMA's boxes as well.
    "bank_reads": ("l1tex__data_bank_reads.sum",),
    "bank_writes": ("l1tex__data_bank_writes.sum",),
    "bank_read_pct": ("l1tex__data_bank_reads.avg.pct_of_peak_sustained_elapsed",),
    "bank_write_pct": ("l1tex__data_bank_writes.avg.pct_of_peak_sustained_elapsed",),
    "lsu_conflicts": (
        "l1tex__data_bank_conflicts_pipe_lsu.sum",
        "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum",
    ),
    "wgmma_instructions": _sass("inst_executed", "op_shared_gmma"),
    "tma_load_instructions": (
        *_sass("inst_executed", "op_tma_ld"),
        "smsp__inst_executed_op_tma_ld.sum",
    ),
    "tma_load_bytes": (
        "l1tex__m_xbar2l1tex_read_bytes_mem_global_op_tma_ld.sum",
        "l1tex__m_xbar2l1tex_read_bytes_pipe_tma.sum",
    ),
    "tma_store_bytes": (
        "l1tex__m_l1tex2xbar_write_bytes_mem_global_op_tma_st.sum",
        "l1tex__m_l1tex2xbar_write_bytes_pipe_tma.sum",
    ),
}

_L2 = {
    # Sectors that the L2 was asked for, and bytes that arrived: a multicast is one and many.
    "l2_read_sectors": ("lts__t_sectors_srcunit_tex_op_read.sum", "lts__t_sectors_op_read.sum"),
    "l2_to_sm_bytes": ("l1tex__m_xbar2l1tex_read_bytes.sum",),
    "l2_read_hit_pct": ("lts__t_sector_op_read_hit_rate.pct",),
    "l2_pct": (
        "lts__throughput.avg.pct_of_peak_sustained_elapsed",
        "lts__t_sectors.avg.pct_of_peak_sustained_elapsed",
    ),
}

_CLOCK = {
    "sm_hz": ("sm__cycles_elapsed.avg.per_second", "smsp__cycles_elapsed.avg.per_second"),
}

_SM90_DERIVED = _CONFLICT_SHARES | {
    "sm_mhz": (1e-6, "sm_hz", None),
    "l2_read_bytes": (32, "l2_read_sectors", None),
    "bank_reads_per_wgmma": (1, "bank_reads", "wgmma_instructions"),
    "bank_writes_per_kb": (1024, "bank_writes", "tma_load_bytes"),
}

_SM90_TABLE = {
    "time_ns": ("time", "us", 1e-3, 1),
    "sm_mhz": ("SM", "MHz", 1, 0),
    "tensor_pct": ("tensor", "%", 1, 1),
    "l2_pct": ("L2", "%", 1, 1),
    "l2_read_bytes": ("L2 read", "GB", 1e-9, 2),
    "l2_to_sm_bytes": ("L2 to SM", "GB", 1e-9, 2),
    "l2_hit_pct": ("L2", "hits %", 1, 1),
    "dram_read_bytes": ("DRAM", "read MB", 1e-6, 0),
    "dram_write_bytes": ("DRAM", "write MB", 1e-6, 0),
    "bank_reads_per_wgmma": ("bank rd.", "a wgmma", 1, 2),
    "bank_writes_per_kb": ("bank wr.", "a TMA KB", 1, 2),
    "load_conflict_pct": ("loads", "confl.%", 1, 2),
    "store_conflict_pct": ("stores", "confl.%", 1, 2),
    "registers": ("regs", "", 1, 0),
}

LADDER_SM90 = Report(
    _COMMON | _CLOCK | _L2 | _BANKS | {f"stall_{reason}": _stall(reason) for reason in STALLS},
    _SM90_DERIVED,
    _SM90_TABLE,
)

# Fewer, for many launches of up to 16384³: each pass is one more.
STUDY = Report(
    {column: _COMMON[column] for column in _COMMON if column != "warps_active_pct"}
    | _CLOCK
    | _L2
    | _BANKS,
    _SM90_DERIVED,
    _SM90_TABLE,
)
