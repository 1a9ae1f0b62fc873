// Weights that nobody trained: values from (seed, tensor name, element index) alone, so that the same model stands
// behind every TP size, backend and container. Owns the law; knows no architecture and no file.
//
// The law, which scripts/dummy_weights.py repeats bit for bit and kernels/dummy_law.h shares with the device. All integers are u64 modulo 2^64, all floats f32 with
// one rounding to nearest even per operation unless "f64" is said; mix is the finaliser of splitmix64
// (x ^= x >> 30; x *= 0xbf58476d1ce4e5b9; x ^= x >> 27; x *= 0x94d049bb133111eb; x ^= x >> 31), G = 0x9e3779b97f4a7c15.
//
//   key     = mix(FNV-1a-64(name) ^ mix(seed + G))       name: the Hugging Face name, in every container
//   word(i) = mix(key + (i + 1) * G)
//
// Plain formats, element i in row-major order of the whole tensor:
//   s = (sum of the four u16 lanes of word(i)) - 131070, an integer with standard deviation 65536 / sqrt(3)
//   matrices:              s * f32(f64(sqrt(3) / 65536 / sqrt(last dimension)))     about normal, one over sqrt(fan-in)
//   vectors, norm weights: 1 + s * f32(f64(0.1 * (sqrt(3) / 65536)))                name has "norm", ends in ".weight"
//   other vectors:         s * f32(f64(0.1 * (sqrt(3) / 65536)))
// then rounded to the dtype.
//
// F8_E4M3 matrices hold 1024 times that value, saturated at 448; their scales, the tensors whose names end in
// "weight_scale" or "weight_scale_inv", are (0.75 + (word(i) >> 40) * 2^-25) * 2^-10, rounded to their dtype.
//
// Block formats, block b of the whole tensor with n bytes, W = ceil(n / 8) + 1 words from word(b * W):
//   bytes = the first n bytes of the little-endian words, then the scale fields are replaced. With w the last word:
//   d = f16(base * jitter * sign)   base = f32(f64(1 / (rms * sqrt(last dimension))))   rms: see kScales
//                                   jitter = 0.75 + (w >> 40) * 2^-25, sign = -1 if w is odd
//   m = f16(d before rounding * ratio * (0.875 + ((w >> 8) & 0xffffff) * 2^-26))        for formats with m or dmin
//   MXFP4: e = 125 - bit_width(last dimension) / 2 + (w >> 62) % 3 - 1
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/result.h"
#include "engine/weights/checkpoint.h"
#include "kernels/tensor.h"

namespace slipstream {

struct DummyTensor {
  std::string name;
  DType dtype = DType::kF32;    // not kI32
  std::vector<int64_t> shape;   // of the whole tensor; block formats need two dimensions or more
};

/// The key of a tensor's words: all that its values depend on besides shape and format.
uint64_t dummy_key(uint64_t seed, std::string_view name);

/// Writes the stored form of elements [first, first + count) of the whole tensor, in row-major order. Both are
/// multiples of the block. A tensor-parallel slice asks for its own elements and gets the same values.
void fill_dummy(uint64_t seed, const DummyTensor& tensor, int64_t first, int64_t count, std::byte* out);

/// Which tensors of a dummy checkpoint have bytes: all, or only vectors and the scales of F8_E4M3 matrices. Matrices
/// without bytes have data == nullptr, and whoever takes them makes the values where they are wanted (WeightPart::dummy,
/// or fill_dummy).
enum class DummyBytes : uint8_t { kAll, kSmall };

/// A checkpoint of such tensors in memory, beside the side files of `folder` (its config.json says the shape).
/// kInvalidArgument for a tensor that the law does not cover.
Result<std::unique_ptr<Checkpoint>> make_dummy_checkpoint(const std::string& folder, uint64_t seed,
                                                          const std::vector<DummyTensor>& tensors,
                                                          DummyBytes which = DummyBytes::kAll);

}  // namespace slipstream
