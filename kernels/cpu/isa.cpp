#include "kernels/cpu/isa.h"

#include <stdexcept>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace slipstream {
namespace {

#if defined(__x86_64__)
// Asked of the processor itself: clang's __builtin_cpu_supports does not know the name.
bool has_f16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}
#endif

struct Available {
  bool avx2 = false;
  bool avx512vnni = false;
};

Available detect() {
  Available a;
#if defined(__x86_64__)
  __builtin_cpu_init();
  a.avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
  a.avx512vnni = a.avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                 __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
                 __builtin_cpu_supports("avx512vnni");
#endif
  return a;
}

}  // namespace

KernelTables kernel_tables(const std::string& isa) {
  const Available has = detect();
  const bool any = isa.empty();
  if (!any && isa != "scalar" && isa != "avx2" && isa != "avx512vnni")
    throw std::invalid_argument("instruction set '" + isa + "' is unknown; use scalar, avx2 or avx512vnni");
  if ((isa == "avx2" && !has.avx2) || (isa == "avx512vnni" && !has.avx512vnni))
    throw std::invalid_argument("instruction set '" + isa + "' is not offered by this processor; leave it empty");
  KernelTables t{"scalar", "", &quant_kernels_scalar(), &float_kernels_scalar(), &attention_kernels_scalar(),
                 &element_kernels_scalar()};
  t.why = any ? "no avx2, fma and f16c here" : "forced";
#if defined(__x86_64__)
  if (isa == "scalar" || !has.avx2) return t;
  t = {"avx2", "", &quant_kernels_avx2(), &float_kernels_avx2(), &attention_kernels_avx2(), &element_kernels_avx2()};
  t.why = has.avx512vnni ? "forced" : "no avx512vnni here";
  if (isa == "avx2" || !has.avx512vnni) return t;
  t.isa = "avx512vnni";
  t.why = any ? "" : "forced";
  t.quant = &quant_kernels_avx512vnni();
#endif
  return t;
}

}  // namespace slipstream
