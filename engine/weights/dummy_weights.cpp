#include "engine/weights/dummy_weights.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "engine/weights/extents.h"
#include "engine/weights/model_folder.h"
#include "kernels/check.h"
#include "kernels/formats.h"

namespace slipstream {
namespace {

constexpr uint64_t kGolden = 0x9e3779b97f4a7c15u;

uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

uint64_t tensor_key(uint64_t seed, std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : name) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3u;
  return mix(hash ^ mix(seed + kGolden));
}

uint64_t word(uint64_t key, uint64_t index) { return mix(key + (index + 1) * kGolden); }

float centred(uint64_t w) {
  const uint64_t sum = (w & 0xffffu) + ((w >> 16) & 0xffffu) + ((w >> 32) & 0xffffu) + (w >> 48);
  return static_cast<float>(static_cast<int32_t>(sum) - 131070);
}

/// Where the scale fields of a block are, and how large its values are at d = 1 when the other bytes are random.
struct BlockScales {
  DType dtype;
  int d_at;
  double rms;     // root mean square of the values, with m at its mean
  int m_at;       // of m or dmin; -1: the format has none
  float m_ratio;  // m / d that centres the values on zero
};
constexpr BlockScales kScales[] = {
    {DType::kQ4_0, 0, 4.6368, -1, 0.0f},   {DType::kQ4_1, 0, 4.6098, 2, -7.5f},  {DType::kQ5_0, 0, 9.2466, -1, 0.0f},
    {DType::kQ5_1, 0, 9.2331, 2, -15.5f},  {DType::kQ8_0, 0, 73.902, -1, 0.0f},  {DType::kQ2_K, 80, 14.71, 82, 1.5f},
    {DType::kQ3_K, 108, 43.34, -1, 0.0f},  {DType::kQ4_K, 0, 259.0, 2, 7.5f},    {DType::kQ5_K, 0, 527.0, 2, 15.5f},
    {DType::kQ6_K, 208, 1365.9, -1, 0.0f}, {DType::kIQ4_NL, 0, 68.27, -1, 0.0f}, {DType::kIQ4_XS, 0, 1261.6, -1, 0.0f},
};

void store_f16(std::byte* at, float value) {
  const uint16_t half = f32_to_f16(value);
  std::memcpy(at, &half, sizeof half);
}

void replace_scales(DType dtype, int64_t fan_in, uint64_t w, std::byte* block) {
  if (dtype == DType::kMXFP4) {
    const int width = std::bit_width(static_cast<uint64_t>(fan_in));
    block[0] = static_cast<std::byte>(125 - width / 2 + static_cast<int>((w >> 62) % 3) - 1);
    return;
  }
  const auto* scales = std::find_if(std::begin(kScales), std::end(kScales),
                                    [&](const BlockScales& entry) { return entry.dtype == dtype; });
  CHECK(scales != std::end(kScales), "no dummy law for this format");
  const auto base = static_cast<float>(1.0 / (scales->rms * std::sqrt(static_cast<double>(fan_in))));
  const float jitter = 0.75f + static_cast<float>(w >> 40) * 0x1p-25f;
  const float d = base * jitter * ((w & 1) != 0 ? -1.0f : 1.0f);
  store_f16(block + scales->d_at, d);
  if (scales->m_at < 0) return;
  const float wobble = 0.875f + static_cast<float>((w >> 8) & 0xffffffu) * 0x1p-26f;
  store_f16(block + scales->m_at, d * scales->m_ratio * wobble);
}

void fill_blocks(uint64_t key, DType dtype, int64_t fan_in, int64_t first, int64_t count, std::byte* out) {
  const DTypeInfo& info = dtype_info(dtype);
  CHECK(first % info.block_elements == 0 && count % info.block_elements == 0, "dummy weights come in whole blocks");
  const auto bytes = static_cast<size_t>(info.block_bytes);
  const uint64_t words = (bytes + 7) / 8 + 1;
  const int64_t last_block = (first + count) / info.block_elements;
  for (int64_t b = first / info.block_elements; b < last_block; ++b, out += bytes) {
    const uint64_t first_word = static_cast<uint64_t>(b) * words;
    for (size_t at = 0; at < bytes; at += 8) {
      const uint64_t w = word(key, first_word + at / 8);
      std::memcpy(out + at, &w, std::min<size_t>(8, bytes - at));
    }
    replace_scales(dtype, fan_in, word(key, first_word + words - 1), out);
  }
}

bool ends_with(std::string_view text, std::string_view suffix) {
  return text.size() >= suffix.size() && text.substr(text.size() - suffix.size()) == suffix;
}

}  // namespace

void fill_dummy(uint64_t seed, const DummyTensor& tensor, int64_t first, int64_t count, std::byte* out) {
  CHECK(!tensor.shape.empty() && tensor.dtype != DType::kI32, "no dummy law for this tensor");
  const uint64_t key = tensor_key(seed, tensor.name);
  const DTypeInfo& info = dtype_info(tensor.dtype);
  const int64_t fan_in = tensor.shape.back();
  if (info.block_elements > 1) {
    CHECK(tensor.shape.size() >= 2, "block formats hold matrices");
    fill_blocks(key, tensor.dtype, fan_in, first, count, out);
    return;
  }
  const double unit = std::sqrt(3.0) / 65536.0;
  const bool vector = tensor.shape.size() == 1;
  const bool norm = vector && tensor.name.find("norm") != std::string::npos && ends_with(tensor.name, ".weight");
  const auto scale = static_cast<float>(vector ? 0.1 * unit : unit / std::sqrt(static_cast<double>(fan_in)));
  const bool f8_scales = ends_with(tensor.name, "weight_scale") || ends_with(tensor.name, "weight_scale_inv");
  for (int64_t i = 0; i < count; ++i, out += info.block_bytes) {
    const uint64_t w = word(key, static_cast<uint64_t>(first + i));
    float value = centred(w) * scale;
    if (norm) value = 1.0f + value;
    if (f8_scales) value = (0.75f + static_cast<float>(w >> 40) * 0x1p-25f) * 0x1p-10f;
    if (tensor.dtype == DType::kF8E4M3) value *= 1024.0f;
    quantize_row(tensor.dtype, &value, out, 1);
  }
}

namespace {

class DummyCheckpoint final : public Checkpoint {
 public:
  explicit DummyCheckpoint(ModelFolder folder) : folder_(std::move(folder)) {}

  Status add(uint64_t seed, const DummyTensor& tensor) {
    const DTypeInfo& info = dtype_info(tensor.dtype);
    SLIP_TRY(const uint64_t elements, element_count(tensor.shape));
    const bool blocks = info.block_elements > 1;
    if (tensor.shape.empty() || elements == 0 || tensor.dtype == DType::kI32 || (blocks && tensor.shape.size() < 2) ||
        tensor.shape.back() % info.block_elements != 0) {
      return invalid_argument("no dummy weights for tensor " + quote_name(tensor.name) + " as " + std::string(info.name) +
                              ": they need whole blocks along a row of a matrix, or a plain format");
    }
    const int64_t bytes = row_bytes(tensor.dtype, static_cast<int64_t>(elements));
    auto data = std::make_unique<std::byte[]>(static_cast<size_t>(bytes));
    fill_dummy(seed, tensor, 0, static_cast<int64_t>(elements), data.get());
    tensors_.push_back(
        {tensor.name, tensor.dtype, tensor.shape, data.get(), static_cast<uint64_t>(bytes), {}});
    data_.push_back(std::move(data));
    return Ok{};
  }
  Status finish() {
    std::sort(tensors_.begin(), tensors_.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
    for (size_t i = 1; i < tensors_.size(); ++i) {
      if (tensors_[i].name == tensors_[i - 1].name) {
        return invalid_argument("dummy tensor " + quote_name(tensors_[i].name) + " is named twice");
      }
    }
    return Ok{};
  }

  CheckpointKind kind() const override { return CheckpointKind::kSafetensors; }
  const std::string& path() const override { return folder_.path(); }
  const std::vector<TensorEntry>& tensors() const override { return tensors_; }
  const std::map<std::string, MetaValue, std::less<>>& metadata() const override { return metadata_; }
  Result<std::string> read_side_file(std::string_view name, uint64_t max_bytes) const override {
    return folder_.read(name, max_bytes);
  }
  void release(const TensorEntry&) override {}  // the bytes must stay readable, and there is no file behind them

 private:
  ModelFolder folder_;
  std::vector<TensorEntry> tensors_;
  std::vector<std::unique_ptr<std::byte[]>> data_;
  std::map<std::string, MetaValue, std::less<>> metadata_;
};

}  // namespace

Result<std::unique_ptr<Checkpoint>> make_dummy_checkpoint(const std::string& folder, uint64_t seed,
                                                          const std::vector<DummyTensor>& tensors) {
  SLIP_TRY(ModelFolder opened, ModelFolder::open(folder));
  auto checkpoint = std::make_unique<DummyCheckpoint>(std::move(opened));
  for (const DummyTensor& tensor : tensors) SLIP_RETURN_IF_ERROR(checkpoint->add(seed, tensor));
  SLIP_RETURN_IF_ERROR(checkpoint->finish());
  return std::unique_ptr<Checkpoint>(std::move(checkpoint));
}

}  // namespace slipstream
