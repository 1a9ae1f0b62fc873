#include "engine/weights/gguf_types.h"

#include <string>

namespace slipstream {
namespace {

enum class Standing : uint8_t { kServed, kKnown, kRemoved, kFork };

struct GgufType {
  uint32_t id;
  std::string_view name;
  Standing standing;
  DType dtype;
};

constexpr DType kNone = DType::kF32;  // not read unless served

constexpr GgufType kTypes[] = {
    {0, "F32", Standing::kServed, DType::kF32},
    {1, "F16", Standing::kServed, DType::kF16},
    {2, "Q4_0", Standing::kServed, DType::kQ4_0},
    {3, "Q4_1", Standing::kServed, DType::kQ4_1},
    {4, "Q4_2", Standing::kRemoved, kNone},
    {5, "Q4_3", Standing::kRemoved, kNone},
    {6, "Q5_0", Standing::kServed, DType::kQ5_0},
    {7, "Q5_1", Standing::kServed, DType::kQ5_1},
    {8, "Q8_0", Standing::kServed, DType::kQ8_0},
    {9, "Q8_1", Standing::kKnown, kNone},
    {10, "Q2_K", Standing::kServed, DType::kQ2_K},
    {11, "Q3_K", Standing::kServed, DType::kQ3_K},
    {12, "Q4_K", Standing::kServed, DType::kQ4_K},
    {13, "Q5_K", Standing::kServed, DType::kQ5_K},
    {14, "Q6_K", Standing::kServed, DType::kQ6_K},
    {15, "Q8_K", Standing::kKnown, kNone},
    {16, "IQ2_XXS", Standing::kKnown, kNone},
    {17, "IQ2_XS", Standing::kKnown, kNone},
    {18, "IQ3_XXS", Standing::kKnown, kNone},
    {19, "IQ1_S", Standing::kKnown, kNone},
    {20, "IQ4_NL", Standing::kServed, DType::kIQ4_NL},
    {21, "IQ3_S", Standing::kKnown, kNone},
    {22, "IQ2_S", Standing::kKnown, kNone},
    {23, "IQ4_XS", Standing::kServed, DType::kIQ4_XS},
    {24, "I8", Standing::kKnown, kNone},
    {25, "I16", Standing::kKnown, kNone},
    {26, "I32", Standing::kServed, DType::kI32},
    {27, "I64", Standing::kKnown, kNone},
    {28, "F64", Standing::kKnown, kNone},
    {29, "IQ1_M", Standing::kKnown, kNone},
    {30, "BF16", Standing::kServed, DType::kBF16},
    {31, "Q4_0_4_4", Standing::kRemoved, kNone},
    {32, "Q4_0_4_8", Standing::kRemoved, kNone},
    {33, "Q4_0_8_8", Standing::kRemoved, kNone},
    {34, "TQ1_0", Standing::kKnown, kNone},
    {35, "TQ2_0", Standing::kKnown, kNone},
    {36, "IQ4_NL_4_4", Standing::kRemoved, kNone},
    {37, "IQ4_NL_4_8", Standing::kRemoved, kNone},
    {38, "IQ4_NL_8_8", Standing::kRemoved, kNone},
    {39, "MXFP4", Standing::kServed, DType::kMXFP4},
    {40, "NVFP4", Standing::kKnown, kNone},
    {41, "Q1_0", Standing::kKnown, kNone},
    {42, "Q2_0", Standing::kKnown, kNone},
    {97, "Q8_0_X4", Standing::kFork, kNone},
    {98, "Q8_1_X4", Standing::kFork, kNone},
    {99, "Q8_2_X4", Standing::kFork, kNone},
    {133, "Q6_0", Standing::kFork, kNone},
    {134, "IQ1_BN", Standing::kFork, kNone},
    {135, "IQ2_BN", Standing::kFork, kNone},
    {136, "Q8_K64", Standing::kFork, kNone},
    {137, "IQ2_K", Standing::kFork, kNone},
    {138, "IQ3_K", Standing::kFork, kNone},
    {139, "IQ4_K", Standing::kFork, kNone},
    {140, "IQ5_K", Standing::kFork, kNone},
    {141, "IQ6_K", Standing::kFork, kNone},
    {144, "IQ4_KS", Standing::kFork, kNone},
    {145, "IQ2_KS", Standing::kFork, kNone},
    {146, "IQ4_KSS", Standing::kFork, kNone},
    {147, "Q8_K16", Standing::kFork, kNone},
    {148, "Q8_K32", Standing::kFork, kNone},
    {149, "Q8_KR8", Standing::kFork, kNone},
    {150, "Q8_K128", Standing::kFork, kNone},
    {151, "Q8_KV", Standing::kFork, kNone},
    {152, "IQ5_KS", Standing::kFork, kNone},
    {153, "IQ2_KT", Standing::kFork, kNone},
    {154, "IQ3_KT", Standing::kFork, kNone},
    {155, "IQ4_KT", Standing::kFork, kNone},
    {156, "IQ3_KS", Standing::kFork, kNone},
    {157, "IQ2_KL", Standing::kFork, kNone},
    {158, "IQ1_KT", Standing::kFork, kNone},
};

constexpr std::string_view kServedNames =
    "F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K to Q6_K, IQ4_NL, IQ4_XS, MXFP4";

}  // namespace

Result<DType> gguf_dtype(uint32_t type_id) {
  const std::string id = std::to_string(type_id);
  for (const GgufType& type : kTypes) {
    if (type.id != type_id) continue;
    const std::string name(type.name);
    switch (type.standing) {
      case Standing::kServed:
        return type.dtype;
      case Standing::kKnown:
        return unsupported("type " + name + " (id " + id + ") is recognised but not served; convert the model to one of " +
                           std::string(kServedNames));
      case Standing::kRemoved:
        return unsupported("type " + name + " (id " + id +
                           ") was removed from GGUF; convert the model again from its source, e.g. to Q4_0");
      case Standing::kFork:
        return unsupported("type " + name + " (id " + id + ") exists only in ik_llama.cpp; use a file quantised to one of " +
                           std::string(kServedNames));
    }
  }
  if (type_id >= 200 && type_id < 400) {
    return unsupported("type id " + id + " is one of ik_llama.cpp's row-interleaved (_R4, _R8) formats; use a file "
                       "quantised to one of " + std::string(kServedNames));
  }
  return corrupt("type id " + id + " is unknown; served are " + std::string(kServedNames));
}

}  // namespace slipstream
