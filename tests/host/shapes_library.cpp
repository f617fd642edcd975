// csrc/dispatch/shapes.h for ctypes: every struct as a row of numbers.
#include "dispatch/shapes.h"

using namespace vitamin;

namespace {

StridedView view(int64_t dims, const int64_t* sizes, const int64_t* strides, int64_t address,
                 int64_t itemsize) {
  return {dims, sizes, strides, reinterpret_cast<const void*>(address), int(itemsize)};
}

int64_t* write(const Matrix& matrix, int64_t* to) {
  *to++ = matrix.row_stride;
  *to++ = matrix.col_stride;
  *to++ = int64_t(matrix.layout);
  *to++ = matrix.align;
  return to;
}

}  // namespace

extern "C" {

// m, n, k, then row stride, column stride, layout and alignment of a, b and c, then the number of
// batch dimensions in the problem and outside of it, then size and strides of a, b, c for each,
// outermost first. Returns how many numbers that is; 0 if the shapes don't fit.
int build(const int64_t* a_dims, const int64_t* b_dims, const int64_t* c_dims,
          const int64_t* numbers, int64_t* result) {
  // numbers: for each of a, b, c its address and itemsize; dims: rank, sizes, strides
  const int64_t* dims[] = {a_dims, b_dims, c_dims};
  StridedView views[3];
  for (int i = 0; i < 3; ++i) {
    const int64_t rank = dims[i][0];
    views[i] = view(rank, dims[i] + 1, dims[i] + 1 + rank, numbers[2 * i], numbers[2 * i + 1]);
  }
  ProductShape product;
  if (!matmul_shape(views[0], views[1], &product).empty()) return 0;
  Problem problem;
  OuterBatch outer;
  build_problem(views[0], views[1], views[2], product, &problem, &outer);
  int64_t* to = result;
  *to++ = problem.m;
  *to++ = problem.n;
  *to++ = problem.k;
  to = write(problem.a, to);
  to = write(problem.b, to);
  to = write(problem.c, to);
  *to++ = problem.batch.dims;
  *to++ = outer.dims;
  for (int i = 0; i < outer.dims; ++i) {
    for (int64_t value : {outer.size[i], outer.a[i], outer.b[i], outer.c[i]}) *to++ = value;
  }
  const Batch& batch = problem.batch;
  for (int i = 0; i < batch.dims; ++i) {
    for (int64_t value : {batch.size[i], batch.a[i], batch.b[i], batch.c[i]}) *to++ = value;
  }
  return int(to - result);
}

int overlaps_itself(const int64_t* dims, int64_t itemsize) {
  return may_overlap_itself(view(dims[0], dims + 1, dims + 1 + dims[0], 0, itemsize));
}

int overlaps(const int64_t* x, int64_t x_address, int64_t x_itemsize, const int64_t* y,
             int64_t y_address, int64_t y_itemsize) {
  return may_overlap(view(x[0], x + 1, x + 1 + x[0], x_address, x_itemsize),
                     view(y[0], y + 1, y + 1 + y[0], y_address, y_itemsize));
}
}
