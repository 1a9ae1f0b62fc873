// Row-wise kernels on one lane: any processor.
#include "kernels/cpu/element_kernels.inl.h"

namespace slipstream {
namespace {

template <>
void ElementRows<Lane1>::quantize_block(const float* x, int8_t* q, float* scale, int32_t* sum) {
  quantize_block_scalar(x, q, scale, sum);
}

}  // namespace

const ElementKernels& element_kernels_scalar() {
  static constexpr ElementKernels table = ElementRows<Lane1>::table("scalar");
  return table;
}

}  // namespace slipstream
