#include "torch_names.h"

#include <torch/csrc/stable/c/shim.h>
#include <torch/headeronly/core/ScalarType.h>

#include <initializer_list>

namespace vitamin {
namespace {

struct Name {
  int32_t code;
  const char* text;
};

std::string find_name(std::initializer_list<Name> names, int32_t code, const char* what) {
  for (const Name& name : names) {
    if (name.code == code) return name.text;
  }
  return std::string(what) + " number " + std::to_string(code);
}

}  // namespace

std::string dtype_name(int32_t dtype) {
  using torch::headeronly::ScalarType;
  return find_name({{aoti_torch_dtype_float16(), "torch.float16"},
                    {aoti_torch_dtype_bfloat16(), "torch.bfloat16"},
                    {aoti_torch_dtype_float32(), "torch.float32"},
                    {aoti_torch_dtype_float64(), "torch.float64"},
                    {aoti_torch_dtype_float8_e5m2(), "torch.float8_e5m2"},
                    {aoti_torch_dtype_float8_e4m3fn(), "torch.float8_e4m3fn"},
                    {aoti_torch_dtype_float8_e5m2fnuz(), "torch.float8_e5m2fnuz"},
                    {aoti_torch_dtype_float8_e4m3fnuz(), "torch.float8_e4m3fnuz"},
                    {aoti_torch_dtype_uint8(), "torch.uint8"},
                    {aoti_torch_dtype_uint16(), "torch.uint16"},
                    {aoti_torch_dtype_uint32(), "torch.uint32"},
                    {aoti_torch_dtype_uint64(), "torch.uint64"},
                    {aoti_torch_dtype_int8(), "torch.int8"},
                    {aoti_torch_dtype_int16(), "torch.int16"},
                    {aoti_torch_dtype_int32(), "torch.int32"},
                    {aoti_torch_dtype_int64(), "torch.int64"},
                    {aoti_torch_dtype_bool(), "torch.bool"},
                    {aoti_torch_dtype_complex32(), "torch.complex32"},
                    {aoti_torch_dtype_complex64(), "torch.complex64"},
                    {aoti_torch_dtype_complex128(), "torch.complex128"},
                    {int32_t(ScalarType::QInt8), "torch.qint8 (quantised)"},
                    {int32_t(ScalarType::QUInt8), "torch.quint8 (quantised)"},
                    {int32_t(ScalarType::QInt32), "torch.qint32 (quantised)"},
                    {int32_t(ScalarType::QUInt4x2), "torch.quint4x2 (quantised)"},
                    {int32_t(ScalarType::QUInt2x4), "torch.quint2x4 (quantised)"}},
                   dtype, "dtype");
}

std::string layout_name(int32_t layout) {
  return find_name({{aoti_torch_layout_strided(), "torch.strided"},
                    {aoti_torch_layout_sparse_coo(), "torch.sparse_coo"},
                    {aoti_torch_layout_sparse_csr(), "torch.sparse_csr"},
                    {aoti_torch_layout_sparse_csc(), "torch.sparse_csc"},
                    {aoti_torch_layout_sparse_bsr(), "torch.sparse_bsr"},
                    {aoti_torch_layout_sparse_bsc(), "torch.sparse_bsc"},
                    {aoti_torch_layout__mkldnn(), "torch._mkldnn"},
                    {aoti_torch_layout_jagged(), "torch.jagged"}},
                   layout, "layout");
}

std::string device_name(int32_t device_type, int32_t device_index) {
  const std::string type = find_name({{aoti_torch_device_type_cpu(), "cpu"},
                                      {aoti_torch_device_type_cuda(), "cuda"},
                                      {aoti_torch_device_type_meta(), "meta"},
                                      {aoti_torch_device_type_xpu(), "xpu"},
                                      {aoti_torch_device_type_mps(), "mps"}},
                                     device_type, "device type");
  if (device_type == aoti_torch_device_type_cpu() || device_index < 0) return type;
  return type + ":" + std::to_string(device_index);
}

}  // namespace vitamin
