#include "engine/weights/dummy_weights.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "engine/weights/extents.h"
#include "engine/weights/model_folder.h"
#include "kernels/check.h"
#include "kernels/dummy_law.h"
#include "kernels/formats.h"

namespace slipstream {
namespace {

using namespace dummy_law;

void store_f16(std::byte* at, float value) {
  const uint16_t half = f32_to_f16(value);
  std::memcpy(at, &half, sizeof half);
}

void replace_scales(DType dtype, int64_t fan_in, uint64_t w, std::byte* block) {
  if (dtype == DType::kMXFP4) {
    block[0] = static_cast<std::byte>(block_exponent(w, std::bit_width(static_cast<uint64_t>(fan_in))));
    return;
  }
  const BlockScales scales = block_scales(dtype);
  CHECK(scales.d_at >= 0, "no dummy law for this format");
  const BlockLevels levels = block_levels(w, block_base(dtype, fan_in), scales.m_ratio);
  store_f16(block + scales.d_at, levels.d);
  if (scales.m_at >= 0) store_f16(block + scales.m_at, levels.m);
}

void fill_blocks(uint64_t key, DType dtype, int64_t fan_in, int64_t first, int64_t count, std::byte* out) {
  const DTypeInfo& info = dtype_info(dtype);
  CHECK(first % info.block_elements == 0 && count % info.block_elements == 0, "dummy weights come in whole blocks");
  const auto bytes = static_cast<size_t>(info.block_bytes);
  const uint64_t words = block_words(info.block_bytes);
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

/// Of F8_E4M3 matrices, by their names.
bool is_f8_scales(std::string_view name) { return ends_with(name, "weight_scale") || ends_with(name, "weight_scale_inv"); }

}  // namespace

uint64_t dummy_key(uint64_t seed, std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : name) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3u;
  return mix(hash ^ mix(seed + kGolden));
}

void fill_dummy(uint64_t seed, const DummyTensor& tensor, int64_t first, int64_t count, std::byte* out) {
  CHECK(!tensor.shape.empty() && tensor.dtype != DType::kI32, "no dummy law for this tensor");
  const uint64_t key = dummy_key(seed, tensor.name);
  const DTypeInfo& info = dtype_info(tensor.dtype);
  const int64_t fan_in = tensor.shape.back();
  if (info.block_elements > 1) {
    CHECK(tensor.shape.size() >= 2, "block formats hold matrices");
    fill_blocks(key, tensor.dtype, fan_in, first, count, out);
    return;
  }
  const bool vector = tensor.shape.size() == 1;
  const bool norm = vector && tensor.name.find("norm") != std::string::npos && ends_with(tensor.name, ".weight");
  const float scale = vector ? static_cast<float>(0.1 * (std::sqrt(3.0) / 65536.0)) : matrix_scale(fan_in);
  const bool f8_scales = is_f8_scales(tensor.name);
  for (int64_t i = 0; i < count; ++i, out += info.block_bytes) {
    const uint64_t w = word(key, static_cast<uint64_t>(first + i));
    float value = centred(w) * scale;
    if (norm) value = 1.0f + value;
    if (f8_scales) value = (0.75f + static_cast<float>(w >> 40) * 0x1p-25f) * 0x1p-10f;
    if (tensor.dtype == DType::kF8E4M3) value *= kF8Factor;
    quantize_row(tensor.dtype, &value, out, 1);
  }
}

namespace {

class DummyCheckpoint final : public Checkpoint {
 public:
  explicit DummyCheckpoint(ModelFolder folder) : folder_(std::move(folder)) {}

  Status add(uint64_t seed, const DummyTensor& tensor, DummyBytes which) {
    const DTypeInfo& info = dtype_info(tensor.dtype);
    SLIP_TRY(const uint64_t elements, element_count(tensor.shape));
    const bool blocks = info.block_elements > 1;
    if (tensor.shape.empty() || elements == 0 || tensor.dtype == DType::kI32 || (blocks && tensor.shape.size() < 2) ||
        tensor.shape.back() % info.block_elements != 0) {
      return invalid_argument("no dummy weights for tensor " + quote_name(tensor.name) + " as " + std::string(info.name) +
                              ": they need whole blocks along a row of a matrix, or a plain format");
    }
    const int64_t bytes = row_bytes(tensor.dtype, static_cast<int64_t>(elements));
    if (which == DummyBytes::kSmall && tensor.shape.size() >= 2 && !is_f8_scales(tensor.name)) {
      tensors_.push_back({tensor.name, tensor.dtype, tensor.shape, nullptr, static_cast<uint64_t>(bytes), {}});
      return Ok{};
    }
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
                                                          const std::vector<DummyTensor>& tensors, DummyBytes which) {
  SLIP_TRY(ModelFolder opened, ModelFolder::open(folder));
  auto checkpoint = std::make_unique<DummyCheckpoint>(std::move(opened));
  for (const DummyTensor& tensor : tensors) SLIP_RETURN_IF_ERROR(checkpoint->add(seed, tensor, which));
  SLIP_RETURN_IF_ERROR(checkpoint->finish());
  return std::unique_ptr<Checkpoint>(std::move(checkpoint));
}

}  // namespace slipstream
