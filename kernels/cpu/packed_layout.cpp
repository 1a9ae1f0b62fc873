#include "kernels/cpu/packed_layout.h"

#include "kernels/check.h"
#include "kernels/formats.h"

namespace slipstream {
namespace {

constexpr int32_t plane_bytes(CodePlanes planes) {
  switch (planes) {
    case CodePlanes::kLow4: return 128;
    case CodePlanes::kLow4Bits1: return 160;
    case CodePlanes::kLow4Bits2: return 192;
    case CodePlanes::kBits2: return 64;
    case CodePlanes::kBits2Bits1: return 96;
    case CodePlanes::kInt8: return 256;
  }
  return 0;
}

constexpr PackedLayout layout(CodePlanes planes, ScaleLayout scales, QuantClass kind, int32_t scale_bytes,
                              int32_t header_bytes, const int8_t* table = nullptr) {
  const int32_t codes = plane_bytes(planes);
  return {planes, scales, kind, table, codes, codes + scale_bytes, header_bytes};
}

constexpr QuantClass offset_class(int8_t zero_shift, int8_t bits, int8_t groups = 1) {
  return {false, zero_shift, groups, false, bits};
}
constexpr QuantClass min_class(int8_t bits, int8_t groups = 1) { return {false, -1, groups, true, bits}; }
constexpr QuantClass signed_class() { return {true, -1, 1, false, 8}; }

using P = CodePlanes;
using S = ScaleLayout;
constexpr PackedLayout kQ4_0 = layout(P::kLow4, S::kHalf, offset_class(3, 4), 16, 0);
constexpr PackedLayout kQ4_1 = layout(P::kLow4, S::kHalf, min_class(4), 32, 0);
constexpr PackedLayout kQ5_0 = layout(P::kLow4Bits1, S::kHalf, offset_class(4, 5), 16, 0);
constexpr PackedLayout kQ5_1 = layout(P::kLow4Bits1, S::kHalf, min_class(5), 32, 0);
constexpr PackedLayout kQ8_0 = layout(P::kInt8, S::kHalf, signed_class(), 16, 0);
constexpr PackedLayout kQ2_K = layout(P::kBits2, S::kSubNibbles, min_class(2, 2), 16, 32);
constexpr PackedLayout kQ3_K = layout(P::kBits2Bits1, S::kSub, offset_class(2, 3, 2), 16, 16);
constexpr PackedLayout kQ4_K = layout(P::kLow4, S::kSub, min_class(4), 16, 32);
constexpr PackedLayout kQ5_K = layout(P::kLow4Bits1, S::kSub, min_class(5), 16, 32);
constexpr PackedLayout kQ6_K = layout(P::kLow4Bits2, S::kSub, offset_class(5, 6, 2), 16, 16);
constexpr PackedLayout kIQ4_NL = layout(P::kLow4, S::kHalf, signed_class(), 16, 0, kIQ4Values);
constexpr PackedLayout kIQ4_XS = layout(P::kLow4, S::kSub, signed_class(), 8, 16, kIQ4Values);
constexpr PackedLayout kMXFP4 = layout(P::kLow4, S::kExponent, signed_class(), 8, 0, kE2M1Doubled);

}  // namespace

const PackedLayout& packed_layout(DType dtype) {
  switch (dtype) {
    case DType::kQ4_0: return kQ4_0;
    case DType::kQ4_1: return kQ4_1;
    case DType::kQ5_0: return kQ5_0;
    case DType::kQ5_1: return kQ5_1;
    case DType::kQ8_0: return kQ8_0;
    case DType::kQ2_K: return kQ2_K;
    case DType::kQ3_K: return kQ3_K;
    case DType::kQ4_K: return kQ4_K;
    case DType::kQ5_K: return kQ5_K;
    case DType::kQ6_K: return kQ6_K;
    case DType::kIQ4_NL: return kIQ4_NL;
    case DType::kIQ4_XS: return kIQ4_XS;
    case DType::kMXFP4: return kMXFP4;
    default: break;
  }
  check_failed(__FILE__, __LINE__, "packed_layout", "not a block-quantised format");
}

}  // namespace slipstream
