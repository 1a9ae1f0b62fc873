// Scalar dequantisation and the few quantisers. The order of float operations is part of the format: each formula in
// formats.h is evaluated as its parentheses say, one rounding per operation.
#include "kernels/formats.h"

#include <cmath>
#include <cstring>
#include <string>

#include "kernels/check.h"

namespace slipstream {
namespace {

uint16_t load_u16(const uint8_t* bytes) {
  uint16_t value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

uint32_t load_u32(const uint8_t* bytes) {
  uint32_t value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

float load_f16(const uint8_t* bytes) { return f16_to_f32(load_u16(bytes)); }

/// Element i (0..31) of 16 nibble bytes in split order.
int split_nibble(const uint8_t* nibbles, int i) { return i < 16 ? nibbles[i] & 15 : nibbles[i - 16] >> 4; }

void q4_0(const uint8_t* b, float* y) {
  const float d = load_f16(b);
  for (int i = 0; i < 32; ++i) y[i] = d * static_cast<float>(split_nibble(b + 2, i) - 8);
}

void q4_1(const uint8_t* b, float* y) {
  const float d = load_f16(b);
  const float m = load_f16(b + 2);
  for (int i = 0; i < 32; ++i) y[i] = d * static_cast<float>(split_nibble(b + 4, i)) + m;
}

void q5_0(const uint8_t* b, float* y) {
  const float d = load_f16(b);
  const uint32_t high = load_u32(b + 2);
  for (int i = 0; i < 32; ++i) {
    const int q = split_nibble(b + 6, i) | static_cast<int>(((high >> i) & 1u) << 4);
    y[i] = d * static_cast<float>(q - 16);
  }
}

void q5_1(const uint8_t* b, float* y) {
  const float d = load_f16(b);
  const float m = load_f16(b + 2);
  const uint32_t high = load_u32(b + 4);
  for (int i = 0; i < 32; ++i) {
    const int q = split_nibble(b + 8, i) | static_cast<int>(((high >> i) & 1u) << 4);
    y[i] = d * static_cast<float>(q) + m;
  }
}

void q8_0(const uint8_t* b, float* y) {
  const float d = load_f16(b);
  for (int i = 0; i < 32; ++i) y[i] = d * static_cast<float>(static_cast<int8_t>(b[2 + i]));
}

void q2_k(const uint8_t* b, float* y) {
  const float d = load_f16(b + 80);
  const float dmin = load_f16(b + 82);
  for (int e = 0; e < 256; ++e) {
    const uint8_t scale_min = b[e / 16];
    const int q = (b[16 + 32 * (e / 128) + e % 32] >> (2 * ((e % 128) / 32))) & 3;
    y[e] = (d * static_cast<float>(scale_min & 15)) * static_cast<float>(q) -
           dmin * static_cast<float>(scale_min >> 4);
  }
}

void q3_k(const uint8_t* b, float* y) {
  const float d = load_f16(b + 108);
  for (int e = 0; e < 256; ++e) {
    const int low = (b[32 + 32 * (e / 128) + e % 32] >> (2 * ((e % 128) / 32))) & 3;
    const int high = (b[e % 32] >> (e / 32)) & 1;  // a clear bit subtracts 4
    const float scale = d * static_cast<float>(unpack_q3k_scale(b + 96, e / 16));
    y[e] = scale * static_cast<float>(low - (high != 0 ? 0 : 4));
  }
}

/// Q4_K and Q5_K differ only in where the nibbles are and in the fifth bit; high is null for Q4_K.
void q45_k(const uint8_t* b, const uint8_t* high, const uint8_t* nibbles, float* y) {
  const float d = load_f16(b);
  const float dmin = load_f16(b + 2);
  for (int j = 0; j < 8; ++j) {
    const ScaleMin packed = unpack_scale_min(b + 4, j);
    const float scale = d * static_cast<float>(packed.scale);
    const float min = dmin * static_cast<float>(packed.min);
    for (int l = 0; l < 32; ++l) {
      int q = (nibbles[32 * (j / 2) + l] >> (j % 2 == 0 ? 0 : 4)) & 15;
      if (high != nullptr) q |= ((high[l] >> j) & 1) << 4;
      y[32 * j + l] = scale * static_cast<float>(q) - min;
    }
  }
}

void q4_k(const uint8_t* b, float* y) { q45_k(b, nullptr, b + 16, y); }
void q5_k(const uint8_t* b, float* y) { q45_k(b, b + 16, b + 48, y); }

void q6_k(const uint8_t* b, float* y) {
  const float d = load_f16(b + 208);
  for (int e = 0; e < 256; ++e) {
    const int half = e / 128;
    const int group = (e % 128) / 32;
    const int l = e % 32;
    const int low = (b[64 * half + 32 * (group & 1) + l] >> (group < 2 ? 0 : 4)) & 15;
    const int high = (b[128 + 32 * half + l] >> (2 * group)) & 3;
    const float scale = d * static_cast<float>(static_cast<int8_t>(b[192 + e / 16]));
    y[e] = scale * static_cast<float>((low | (high << 4)) - 32);
  }
}

void iq4_nl(const uint8_t* b, float* y) {
  const float d = load_f16(b);
  for (int i = 0; i < 32; ++i) y[i] = d * static_cast<float>(kIQ4Values[split_nibble(b + 2, i)]);
}

void iq4_xs(const uint8_t* b, float* y) {
  const float d = load_f16(b);
  const uint16_t scales_high = load_u16(b + 2);
  for (int j = 0; j < 8; ++j) {
    const int low = (b[4 + j / 2] >> (4 * (j % 2))) & 15;
    const int high = (scales_high >> (2 * j)) & 3;
    const float scale = d * static_cast<float>((low | (high << 4)) - 32);
    for (int i = 0; i < 32; ++i) {
      y[32 * j + i] = scale * static_cast<float>(kIQ4Values[split_nibble(b + 8 + 16 * j, i)]);
    }
  }
}

void mxfp4(const uint8_t* b, float* y) {
  // Half of 2^(e - 127), since the table is doubled; e = 255 stays finite until it is multiplied.
  const float half_scale = std::ldexp(1.0f, static_cast<int>(b[0]) - 128);
  for (int i = 0; i < 32; ++i) y[i] = half_scale * static_cast<float>(kE2M1Doubled[split_nibble(b + 1, i)]);
}

using BlockReader = void (*)(const uint8_t*, float*);

BlockReader block_reader(DType dtype) {
  switch (dtype) {
    case DType::kQ4_0: return q4_0;
    case DType::kQ4_1: return q4_1;
    case DType::kQ5_0: return q5_0;
    case DType::kQ5_1: return q5_1;
    case DType::kQ8_0: return q8_0;
    case DType::kQ2_K: return q2_k;
    case DType::kQ3_K: return q3_k;
    case DType::kQ4_K: return q4_k;
    case DType::kQ5_K: return q5_k;
    case DType::kQ6_K: return q6_k;
    case DType::kIQ4_NL: return iq4_nl;
    case DType::kIQ4_XS: return iq4_xs;
    case DType::kMXFP4: return mxfp4;
    default: return nullptr;
  }
}

/// Levels of a 4- or 5-bit block: symmetric formats scale by the value of largest magnitude (sign included) over
/// -levels / 2, so that this value is exact; the others by (max - min) / (levels - 1).
struct Levels {
  float d;
  float m;  // 0 for symmetric formats
  uint8_t q[32];
};

Levels symmetric_levels(const float* x, int levels) {
  float extreme = x[0];
  for (int i = 1; i < 32; ++i) {
    if (std::fabs(x[i]) > std::fabs(extreme)) extreme = x[i];
  }
  Levels out{};
  out.d = extreme / static_cast<float>(-levels / 2);
  const float inverse = out.d == 0.0f ? 0.0f : 1.0f / out.d;
  const float offset = static_cast<float>(levels / 2) + 0.5f;
  for (int i = 0; i < 32; ++i) {
    const float q = std::trunc(x[i] * inverse + offset);
    out.q[i] = static_cast<uint8_t>(std::fmin(q, static_cast<float>(levels - 1)));
  }
  return out;
}

Levels affine_levels(const float* x, int levels) {
  float low = x[0];
  float high = x[0];
  for (int i = 1; i < 32; ++i) {
    low = std::fmin(low, x[i]);
    high = std::fmax(high, x[i]);
  }
  Levels out{};
  out.m = low;
  out.d = (high - low) / static_cast<float>(levels - 1);
  const float inverse = out.d == 0.0f ? 0.0f : 1.0f / out.d;
  for (int i = 0; i < 32; ++i) {
    const float q = std::trunc((x[i] - low) * inverse + 0.5f);
    out.q[i] = static_cast<uint8_t>(std::fmin(q, static_cast<float>(levels - 1)));
  }
  return out;
}

void store_f16(uint8_t* bytes, float value) {
  const uint16_t half = f32_to_f16(value);
  std::memcpy(bytes, &half, sizeof half);
}

void store_nibbles(uint8_t* bytes, const uint8_t* q) {
  for (int i = 0; i < 16; ++i) bytes[i] = static_cast<uint8_t>((q[i] & 15) | ((q[i + 16] & 15) << 4));
}

void store_high_bits(uint8_t* bytes, const uint8_t* q) {
  uint32_t high = 0;
  for (int i = 0; i < 32; ++i) high |= static_cast<uint32_t>(q[i] >> 4) << i;
  std::memcpy(bytes, &high, sizeof high);
}

void quantize_block(DType dtype, const float* x, uint8_t* b) {
  if (dtype == DType::kQ8_0) {
    float largest = 0.0f;
    for (int i = 0; i < 32; ++i) largest = std::fmax(largest, std::fabs(x[i]));
    const float d = largest / 127.0f;
    const float inverse = d == 0.0f ? 0.0f : 1.0f / d;
    store_f16(b, d);
    for (int i = 0; i < 32; ++i) b[2 + i] = static_cast<uint8_t>(static_cast<int8_t>(std::round(x[i] * inverse)));
    return;
  }
  const bool five_bits = dtype == DType::kQ5_0 || dtype == DType::kQ5_1;
  const bool affine = dtype == DType::kQ4_1 || dtype == DType::kQ5_1;
  const int count = five_bits ? 32 : 16;
  const Levels levels = affine ? affine_levels(x, count) : symmetric_levels(x, count);
  store_f16(b, levels.d);
  b += 2;
  if (affine) {
    store_f16(b, levels.m);
    b += 2;
  }
  if (five_bits) {
    store_high_bits(b, levels.q);
    b += 4;
  }
  store_nibbles(b, levels.q);
}

}  // namespace

void dequantize_row(DType dtype, const std::byte* row, float* out, int64_t elements) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(row);
  switch (dtype) {
    case DType::kF32:
      std::memcpy(out, bytes, static_cast<size_t>(elements) * sizeof(float));
      return;
    case DType::kF16:
      for (int64_t i = 0; i < elements; ++i) out[i] = load_f16(bytes + 2 * i);
      return;
    case DType::kBF16:
      for (int64_t i = 0; i < elements; ++i) out[i] = bf16_to_f32(load_u16(bytes + 2 * i));
      return;
    case DType::kF8E4M3:
      for (int64_t i = 0; i < elements; ++i) out[i] = e4m3_to_f32(bytes[i]);
      return;
    default:
      break;
  }
  const DTypeInfo& info = dtype_info(dtype);
  const BlockReader read = block_reader(dtype);
  CHECK(read != nullptr, "no dequantisation for " + std::string(info.name));
  CHECK(elements % info.block_elements == 0, "a row must hold whole blocks");
  for (int64_t e = 0; e < elements; e += info.block_elements, bytes += info.block_bytes) read(bytes, out + e);
}

bool can_quantize(DType dtype) {
  switch (dtype) {
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
    case DType::kQ4_0:
    case DType::kQ4_1:
    case DType::kQ5_0:
    case DType::kQ5_1:
    case DType::kQ8_0:
    case DType::kF8E4M3:
      return true;
    default:
      return false;
  }
}

void quantize_row(DType dtype, const float* values, std::byte* row, int64_t elements) {
  const DTypeInfo& info = dtype_info(dtype);
  CHECK(can_quantize(dtype), "no quantiser for " + std::string(info.name));
  CHECK(elements % info.block_elements == 0, "a row must hold whole blocks");
  auto* bytes = reinterpret_cast<uint8_t*>(row);
  if (dtype == DType::kF32) {
    std::memcpy(bytes, values, static_cast<size_t>(elements) * sizeof(float));
    return;
  }
  if (dtype == DType::kF16 || dtype == DType::kBF16) {
    for (int64_t i = 0; i < elements; ++i) {
      const uint16_t stored = dtype == DType::kF16 ? f32_to_f16(values[i]) : f32_to_bf16(values[i]);
      std::memcpy(bytes + 2 * i, &stored, sizeof stored);
    }
    return;
  }
  if (dtype == DType::kF8E4M3) {
    for (int64_t i = 0; i < elements; ++i) bytes[i] = f32_to_e4m3(values[i]);
    return;
  }
  for (int64_t e = 0; e < elements; e += 32, bytes += info.block_bytes) quantize_block(dtype, values + e, bytes);
}

}  // namespace slipstream
