// Which instruction set the CPU backend runs on, and its kernel tables. Decided once per Ops.
#pragma once

#include <string>

#include "kernels/cpu/attention_kernels.h"
#include "kernels/cpu/element_kernels.h"
#include "kernels/cpu/float_kernels.h"
#include "kernels/cpu/quant_kernels.h"

namespace slipstream {

struct KernelTables {
  std::string isa;       // "avx2"
  std::string why;       // why not a faster one; empty for the fastest built
  const QuantKernels* quant;
  const FloatKernels* floats;
  const AttentionKernels* attention;
  const ElementKernels* element;
};

/// isa: "" for the best, or a name. Throws std::invalid_argument naming the set and what this processor offers.
KernelTables kernel_tables(const std::string& isa);

}  // namespace slipstream
