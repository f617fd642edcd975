#ifdef VITAMIN_WITH_CUDA

#include "tensor_map.h"

#include <cuda_runtime_api.h>

namespace vitamin {
namespace {

using Encode = decltype(&cuTensorMapEncodeTiled);

// The driver's function, looked up once: the library does not link against the driver.
Encode find_encode() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found;
  constexpr unsigned version = 12000;
  if (cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, version,
                                       cudaEnableDefault, &found) != cudaSuccess ||
      found != cudaDriverEntryPointSuccess) {
    cudaGetLastError();
    return nullptr;
  }
  return reinterpret_cast<Encode>(function);
}

CUtensorMapSwizzle driver_swizzle(Swizzle swizzle) {
  switch (swizzle) {
    case Swizzle::k128:
      return CU_TENSOR_MAP_SWIZZLE_128B;
    case Swizzle::k64:
      return CU_TENSOR_MAP_SWIZZLE_64B;
    case Swizzle::k32:
      return CU_TENSOR_MAP_SWIZZLE_32B;
    case Swizzle::kNone:
      break;
  }
  return CU_TENSOR_MAP_SWIZZLE_NONE;
}

}  // namespace

int encode_tensor_map(const TensorMapSpec& spec, CUtensorMap* map) {
  static const Encode encode = find_encode();
  if (encode == nullptr) return cudaErrorNotSupported;
  const cuuint32_t rank = spec.stack > 0 ? 3 : 2;
  const cuuint64_t extents[3] = {cuuint64_t(spec.inner), cuuint64_t(spec.outer),
                                 cuuint64_t(spec.stack)};
  // The stride of a single row or matrix has no meaning and may be anything.
  const int64_t row = spec.outer > 1 ? spec.stride : (spec.inner + 7) / 8 * 8;
  const int64_t matrix = spec.stack > 1 ? spec.stack_stride : row * spec.outer;
  const cuuint64_t strides[2] = {cuuint64_t(row) * 2, cuuint64_t(matrix) * 2};
  const cuuint32_t box[3] = {cuuint32_t(spec.box_inner), cuuint32_t(spec.box_outer), 1};
  const cuuint32_t steps[3] = {1, 1, 1};
  const CUresult result =
      encode(map, CU_TENSOR_MAP_DATA_TYPE_UINT16, rank, const_cast<void*>(spec.base), extents,
             strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, driver_swizzle(spec.swizzle),
             CUtensorMapL2promotion(spec.promotion), CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return static_cast<cudaError_t>(result);  // the same numbers
}

}  // namespace vitamin

#endif
