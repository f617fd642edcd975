// From sizes and strides to a Problem: torch.matmul's shape rules, batch collapsing, layouts and
// overlap, with no tensor in sight.
#pragma once

#include <cstdint>
#include <string>

#include "problem.h"

namespace vitamin {

constexpr int kMaxDims = 64;

// A tensor as sizes, strides (in elements) and an address.
struct StridedView {
  int64_t dims = 0;
  const int64_t* sizes = nullptr;
  const int64_t* strides = nullptr;
  const void* data = nullptr;
  int itemsize = 2;
};

// What torch.matmul makes of two shapes. `sizes` is the shape of the result: batch dimensions,
// then m unless a is a vector, then n unless b is one.
struct ProductShape {
  int64_t m = 1;
  int64_t n = 1;
  int64_t k = 0;
  bool a_is_vector = false;
  bool b_is_vector = false;
  int dims = 0;
  int batch_dims = 0;
  int64_t sizes[kMaxDims];

  int64_t count() const {
    int64_t total = 1;
    for (int i = 0; i < dims; ++i) total *= sizes[i];
    return total;
  }
};

// Batch dimensions that Problem::batch has no room for: the host loops over them.
struct OuterBatch {
  int dims = 0;
  int64_t size[kMaxDims];
  int64_t a[kMaxDims];
  int64_t b[kMaxDims];
  int64_t c[kMaxDims];
};

// "[2, 3]"
std::string shape_text(const int64_t* sizes, int64_t dims);

// Empty on success, else why the shapes don't fit.
std::string matmul_shape(const StridedView& a, const StridedView& b, ProductShape* product);

// Sets everything of `problem` but dtype, bias and activation. `c` has the shape of the product
// and the product isn't empty.
void build_problem(const StridedView& a, const StridedView& b, const StridedView& c,
                   const ProductShape& product, Problem* problem, OuterBatch* outer);

// False only when no two indices of the view are shown to share an address.
bool may_overlap_itself(const StridedView& view);

// False only when the two views are shown to share no byte.
bool may_overlap(const StridedView& x, const StridedView& y);

}  // namespace vitamin
