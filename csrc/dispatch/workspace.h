// What lies where in the workspace of a launch. Pure arithmetic: plan() says the same bytes.
#pragma once

#include "kernel_table.h"

namespace vitamin {

// Output tiles of all batches.
int64_t tile_count(const Problem& problem, int tile_m, int tile_n);

enum class Operand { kA, kB };

// The problem with one operand in a scratch: compact, every row of its contiguous index padded to
// 16 bytes, batch indices along which it repeats stored once.
struct Repacked {
  Matrix matrix;  // data is null
  int64_t batch_stride[kMaxBatchDims] = {0, 0, 0, 0};
  int64_t outer = 0;    // extent of the index that is not contiguous
  int64_t inner = 0;    // extent of the contiguous one
  int64_t pitch = 0;    // elements from one outer index to the next
  int64_t batches = 1;  // that differ
  int64_t bytes = 0;
};
Repacked repacked(const Problem& problem, Operand operand);

struct WorkspaceLayout {
  int64_t counter_bytes = 0;  // at 0: parts finished, one counter a tile
  int64_t partial_at = 0;     // split-K partial sums, fp32
  int64_t a_at = 0;
  int64_t b_at = 0;
  int64_t bytes = 0;
};
WorkspaceLayout workspace_layout(const Problem& problem, const Launch& launch, int tile_m,
                                 int tile_n);

}  // namespace vitamin
