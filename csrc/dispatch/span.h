// How far an operand reaches.
#pragma once

#include "problem.h"

namespace vitamin {

// Elements from the first to the last of an operand, of all matrices of the batch.
inline int64_t span(const Matrix& matrix, int64_t rows, int64_t columns, const Batch& batch,
                    const int64_t* batch_strides) {
  int64_t last = (rows - 1) * matrix.row_stride + (columns - 1) * matrix.col_stride;
  for (int d = 0; d < batch.dims; ++d) last += (batch.size[d] - 1) * batch_strides[d];
  return last + 1;
}

}  // namespace vitamin
