// A product worked on as its transpose.
#pragma once

#include <utility>

#include "../dispatch/problem.h"

namespace vitamin::sm90 {

inline Matrix transpose(Matrix x) {
  std::swap(x.row_stride, x.col_stride);
  if (x.layout != Layout::kStrided)
    x.layout = x.layout == Layout::kRow ? Layout::kCol : Layout::kRow;
  return x;
}

// c' = b' a': the same product with the columns of c as rows.
inline Problem transpose(const Problem& p) {
  Problem t = p;
  std::swap(t.m, t.n);
  t.a = transpose(p.b);
  t.b = transpose(p.a);
  t.c = transpose(p.c);
  std::swap(t.batch.a, t.batch.b);
  return t;
}

}  // namespace vitamin::sm90
