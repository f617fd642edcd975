#include "shapes.h"

#include <algorithm>

namespace vitamin {
namespace {

constexpr int kAlign = 16;  // bytes: the widest load of any kernel

// Batch dimensions with everything that walks along them.
struct BatchDims {
  int dims = 0;
  int64_t size[kMaxDims];
  int64_t a[kMaxDims];
  int64_t b[kMaxDims];
  int64_t c[kMaxDims];
};

// The stride by which `view` follows dimension `dim` of the `batch_dims` batch dimensions.
int64_t batch_stride(const StridedView& view, int matrix_dims, int batch_dims, int dim) {
  const int64_t own = dim - (batch_dims - (view.dims - matrix_dims));
  if (own < 0 || view.sizes[own] == 1) return 0;
  return view.strides[own];
}

BatchDims collapse_batch(const StridedView& a, const StridedView& b, const StridedView& c,
                         const ProductShape& product) {
  BatchDims batch;
  const int a_matrix = product.a_is_vector ? 1 : 2;
  const int b_matrix = product.b_is_vector ? 1 : 2;
  for (int i = 0; i < product.batch_dims; ++i) {
    const int64_t size = product.sizes[i];
    if (size == 1) continue;
    const int64_t sa = batch_stride(a, a_matrix, product.batch_dims, i);
    const int64_t sb = batch_stride(b, b_matrix, product.batch_dims, i);
    const int64_t sc = c.strides[i];
    const int last = batch.dims - 1;
    if (last >= 0 && batch.a[last] == sa * size && batch.b[last] == sb * size &&
        batch.c[last] == sc * size) {
      batch.size[last] *= size;
      batch.a[last] = sa;
      batch.b[last] = sb;
      batch.c[last] = sc;
      continue;
    }
    batch.size[batch.dims] = size;
    batch.a[batch.dims] = sa;
    batch.b[batch.dims] = sb;
    batch.c[batch.dims] = sc;
    ++batch.dims;
  }
  return batch;
}

// Rows of several batches are rows of one taller matrix where b is the same for all of them and
// the rows stay evenly spaced.
void fold_into_rows(BatchDims* batch, int64_t* m, int64_t* a_row, int64_t* c_row) {
  while (batch->dims > 0) {
    const int last = batch->dims - 1;
    const bool even = *m == 1 || (batch->a[last] == *m * *a_row && batch->c[last] == *m * *c_row);
    if (batch->b[last] != 0 || !even) return;
    if (*m == 1) {
      *a_row = batch->a[last];
      *c_row = batch->c[last];
    }
    *m *= batch->size[last];
    --batch->dims;
  }
}

int64_t round_up(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// The strides of an index of extent 1 say nothing: only an index with more than one value can be
// the contiguous one, and a leading dimension that is never used becomes an aligned one.
Matrix make_matrix(const void* data, int64_t rows, int64_t cols, int64_t row_stride,
                   int64_t col_stride, int itemsize) {
  Matrix matrix;
  matrix.data = data;
  const bool one_row = rows <= 1;
  const bool one_col = cols <= 1;
  const bool by_rows = one_col ? !(rows > 1 && row_stride == 1) : col_stride == 1;
  const bool by_cols = one_row ? !(cols > 1 && col_stride == 1) : row_stride == 1;
  if (by_rows) {
    matrix.layout = Layout::kRow;
    matrix.row_stride =
        one_row ? round_up(std::max<int64_t>(cols, 1), kAlign / itemsize) : row_stride;
    matrix.col_stride = 1;
  } else if (by_cols) {
    matrix.layout = Layout::kCol;
    matrix.row_stride = 1;
    matrix.col_stride =
        one_col ? round_up(std::max<int64_t>(rows, 1), kAlign / itemsize) : col_stride;
  } else {
    matrix.layout = Layout::kStrided;
    matrix.row_stride = row_stride;
    matrix.col_stride = col_stride;
  }
  return matrix;
}

int alignment(const Matrix& matrix, const int64_t* batch_strides, int batch_dims, int itemsize) {
  uint64_t bits = kAlign | reinterpret_cast<uintptr_t>(matrix.data);
  if (matrix.layout != Layout::kRow) bits |= uint64_t(matrix.col_stride) * itemsize;
  if (matrix.layout != Layout::kCol) bits |= uint64_t(matrix.row_stride) * itemsize;
  for (int i = 0; i < batch_dims; ++i) bits |= uint64_t(batch_strides[i]) * itemsize;
  return int(bits & (~bits + 1));
}

// Bytes from the view's first to past its last element, when strides that are multiples of
// `period` bytes don't count (0: all do).
int64_t span(const StridedView& view, int64_t period) {
  int64_t bytes = view.itemsize;
  for (int64_t i = 0; i < view.dims; ++i) {
    const int64_t stride = view.strides[i] * view.itemsize;
    if (period == 0 || stride % period != 0) bytes += (view.sizes[i] - 1) * stride;
  }
  return bytes;
}

bool is_empty(const StridedView& view) {
  return std::any_of(view.sizes, view.sizes + view.dims, [](int64_t size) { return size == 0; });
}

// True when, modulo `period` bytes, the two views keep to separate stretches.
bool interleaved(const StridedView& x, const StridedView& y, int64_t period) {
  const int64_t x_span = span(x, period);
  const int64_t y_span = span(y, period);
  if (x_span > period || y_span > period) return false;
  const int64_t distance =
      (reinterpret_cast<intptr_t>(y.data) - reinterpret_cast<intptr_t>(x.data)) % period;
  const int64_t ahead = distance < 0 ? distance + period : distance;
  return x_span <= ahead && ahead + y_span <= period;
}

}  // namespace

std::string shape_text(const int64_t* sizes, int64_t dims) {
  std::string text = "[";
  for (int64_t i = 0; i < dims; ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(sizes[i]);
  }
  return text + "]";
}

std::string matmul_shape(const StridedView& a, const StridedView& b, ProductShape* product) {
  const struct {
    const char* name;
    const StridedView& view;
  } operands[] = {{"a", a}, {"b", b}};
  for (const auto& operand : operands) {
    if (operand.view.dims >= 1 && operand.view.dims < kMaxDims) continue;
    return std::string(operand.name) + " has " + std::to_string(operand.view.dims) +
           " dimensions; wanted 1 to " + std::to_string(kMaxDims - 1);
  }
  product->a_is_vector = a.dims == 1;
  product->b_is_vector = b.dims == 1;
  product->k = a.sizes[a.dims - 1];
  const int64_t b_k = b.sizes[product->b_is_vector ? 0 : b.dims - 2];
  if (product->k != b_k) {
    return "a has shape " + shape_text(a.sizes, a.dims) + " and b has shape " +
           shape_text(b.sizes, b.dims) + "; wanted a's last dimension (" +
           std::to_string(product->k) + ") equal to b's " +
           (product->b_is_vector ? "only" : "second to last") + " one (" + std::to_string(b_k) +
           ")";
  }
  product->m = product->a_is_vector ? 1 : a.sizes[a.dims - 2];
  product->n = product->b_is_vector ? 1 : b.sizes[b.dims - 1];
  const int a_batch = product->a_is_vector ? 0 : int(a.dims) - 2;
  const int b_batch = product->b_is_vector ? 0 : int(b.dims) - 2;
  const int batch = std::max(a_batch, b_batch);
  for (int i = 0; i < batch; ++i) {
    const int a_dim = i - (batch - a_batch);
    const int b_dim = i - (batch - b_batch);
    const int64_t a_size = a_dim < 0 ? 1 : a.sizes[a_dim];
    const int64_t b_size = b_dim < 0 ? 1 : b.sizes[b_dim];
    if (a_size != b_size && a_size != 1 && b_size != 1) {
      return "a has shape " + shape_text(a.sizes, a.dims) + " and b has shape " +
             shape_text(b.sizes, b.dims) + "; wanted batch dimensions that broadcast, but " +
             std::to_string(a_size) + " meets " + std::to_string(b_size);
    }
    product->sizes[i] = a_size == 1 ? b_size : a_size;
  }
  product->batch_dims = batch;
  product->dims = batch;
  if (!product->a_is_vector) product->sizes[product->dims++] = product->m;
  if (!product->b_is_vector) product->sizes[product->dims++] = product->n;
  return {};
}

void build_problem(const StridedView& a, const StridedView& b, const StridedView& c,
                   const ProductShape& product, Problem* problem, OuterBatch* outer) {
  int64_t a_row = product.a_is_vector ? 0 : a.strides[a.dims - 2];
  const int64_t a_col = a.strides[a.dims - 1];
  const int64_t b_row = b.strides[product.b_is_vector ? 0 : b.dims - 2];
  const int64_t b_col = product.b_is_vector ? 0 : b.strides[b.dims - 1];
  int64_t c_row = product.a_is_vector ? 0 : c.strides[product.batch_dims];
  const int64_t c_col = product.b_is_vector ? 0 : c.strides[c.dims - 1];

  BatchDims batch = collapse_batch(a, b, c, product);
  problem->m = product.m;
  problem->n = product.n;
  problem->k = product.k;
  fold_into_rows(&batch, &problem->m, &a_row, &c_row);

  problem->a = make_matrix(a.data, problem->m, problem->k, a_row, a_col, a.itemsize);
  problem->b = make_matrix(b.data, problem->k, problem->n, b_row, b_col, b.itemsize);
  problem->c = make_matrix(c.data, problem->m, problem->n, c_row, c_col, c.itemsize);
  problem->a.align = alignment(problem->a, batch.a, batch.dims, a.itemsize);
  problem->b.align = alignment(problem->b, batch.b, batch.dims, b.itemsize);
  problem->c.align = alignment(problem->c, batch.c, batch.dims, c.itemsize);

  outer->dims = std::max(0, batch.dims - kMaxBatchDims);
  for (int i = 0; i < outer->dims; ++i) {
    outer->size[i] = batch.size[i];
    outer->a[i] = batch.a[i];
    outer->b[i] = batch.b[i];
    outer->c[i] = batch.c[i];
  }
  problem->batch.dims = batch.dims - outer->dims;
  for (int i = 0; i < problem->batch.dims; ++i) {
    problem->batch.size[i] = batch.size[outer->dims + i];
    problem->batch.a[i] = batch.a[outer->dims + i];
    problem->batch.b[i] = batch.b[outer->dims + i];
    problem->batch.c[i] = batch.c[outer->dims + i];
  }
}

bool may_overlap_itself(const StridedView& view) {
  if (is_empty(view)) return false;
  struct Dim {
    int64_t size, stride;
  };
  Dim dims[kMaxDims];
  int count = 0;
  for (int64_t i = 0; i < view.dims; ++i) {
    if (view.sizes[i] > 1) dims[count++] = {view.sizes[i], view.strides[i]};
  }
  std::sort(dims, dims + count, [](const Dim& x, const Dim& y) { return x.stride < y.stride; });
  int64_t reach = 0;  // offset of the last element that the smaller strides get to
  for (int i = 0; i < count; ++i) {
    if (dims[i].stride <= reach) return true;
    reach += (dims[i].size - 1) * dims[i].stride;
  }
  return false;
}

bool may_overlap(const StridedView& x, const StridedView& y) {
  if (is_empty(x) || is_empty(y)) return false;
  const intptr_t x_begin = reinterpret_cast<intptr_t>(x.data);
  const intptr_t y_begin = reinterpret_cast<intptr_t>(y.data);
  if (x_begin + span(x, 0) <= y_begin || y_begin + span(y, 0) <= x_begin) return false;
  for (const StridedView* view : {&x, &y}) {
    for (int64_t i = 0; i < view->dims; ++i) {
      const int64_t period = view->strides[i] * view->itemsize;
      if (view->sizes[i] > 1 && period > 0 && interleaved(x, y, period)) return false;
    }
  }
  return true;
}

}  // namespace vitamin
