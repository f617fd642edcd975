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
  const cuuint64_t extents[2] = {cuuint64_t(spec.inner), cuuint64_t(spec.outer)};
  // The stride of a single row has no meaning and may be anything.
  const int64_t stride = spec.outer > 1 ? spec.stride : (spec.inner + 7) / 8 * 8;
  const cuuint64_t strides[1] = {cuuint64_t(stride) * 2};
  const cuuint32_t box[2] = {cuuint32_t(spec.box_inner), cuuint32_t(spec.box_outer)};
  const cuuint32_t steps[2] = {1, 1};
  const CUresult result =
      encode(map, CU_TENSOR_MAP_DATA_TYPE_UINT16, 2, const_cast<void*>(spec.base), extents, strides,
             box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, driver_swizzle(spec.swizzle),
             CUtensorMapL2promotion(spec.promotion), CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

}  // namespace vitamin

#endif
