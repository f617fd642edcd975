// LibTorch's codes as the names that Python users know, for error messages.
#pragma once

#include <cstdint>
#include <string>

namespace vitamin {

std::string dtype_name(int32_t dtype);                               // "torch.float16"
std::string layout_name(int32_t layout);                             // "torch.sparse_coo"
std::string device_name(int32_t device_type, int32_t device_index);  // "cuda:0"

}  // namespace vitamin
