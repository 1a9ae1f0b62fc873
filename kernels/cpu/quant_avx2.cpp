#if defined(__x86_64__)
#include "kernels/cpu/quant_kernels.h"
namespace slipstream {
const QuantKernels& quant_kernels_avx2() { return quant_kernels_scalar(); }
const QuantKernels& quant_kernels_avx512vnni() { return quant_kernels_scalar(); }
}
#include "kernels/cpu/float_kernels.h"
#include "kernels/cpu/attention_kernels.h"
namespace slipstream {
const FloatKernels& float_kernels_avx2() { return float_kernels_scalar(); }
const AttentionKernels& attention_kernels_avx2() { return attention_kernels_scalar(); }
}
#endif
