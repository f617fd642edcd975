// The layouts of a problem's operands as template arguments.
#pragma once

#include <type_traits>

#include "../dispatch/problem.h"

namespace vitamin {

// What launch(a_row, b_row) returns: types whose values say whether a and b are row-major.
template <class Launch>
auto with_layouts(const Problem& problem, const Launch& launch) {
  const auto with_b = [&](auto a_row) {
    return problem.b.layout != Layout::kCol ? launch(a_row, std::true_type())
                                            : launch(a_row, std::false_type());
  };
  return problem.a.layout != Layout::kCol ? with_b(std::true_type()) : with_b(std::false_type());
}

}  // namespace vitamin
