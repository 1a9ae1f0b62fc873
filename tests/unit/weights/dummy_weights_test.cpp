// The dummy law: values worked out by scripts/dummy_weights.py (numpy), slices equal to the whole, sane statistics.
#include "engine/weights/dummy_weights.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "kernels/formats.h"
#include "tests/catch.h"
#include "tests/unit/weights/model_files.h"

using namespace slipstream;

namespace {

std::vector<std::byte> filled(const DummyTensor& tensor, uint64_t seed, int64_t first, int64_t count) {
  std::vector<std::byte> bytes(static_cast<size_t>(row_bytes(tensor.dtype, count)));
  fill_dummy(seed, tensor, first, count, bytes.data());
  return bytes;
}

std::vector<float> decoded(const DummyTensor& tensor, uint64_t seed, int64_t first, int64_t count) {
  const auto bytes = filled(tensor, seed, first, count);
  std::vector<float> values(static_cast<size_t>(count));
  dequantize_row(tensor.dtype, bytes.data(), values.data(), count);
  return values;
}

}  // namespace

TEST_CASE("dummy: the bits that numpy gives") {
  // python3 -c "import dummy_weights as d; print([hex(x) for x in d.values(1, NAME, SHAPE)[:4].view('uint32')])"
  const auto bits = [](const DummyTensor& tensor) {
    std::vector<uint32_t> out;
    for (const float value : decoded(tensor, 1, 0, 4)) out.push_back(std::bit_cast<uint32_t>(value));
    return out;
  };
  REQUIRE(bits({"model.embed_tokens.weight", DType::kF32, {320, 64}}) == std::vector<uint32_t>{0x3d4b2a05u, 0xbdab968au, 0x3dc83dc6u, 0x3ddf5fa8u});
  REQUIRE(bits({"model.norm.weight", DType::kF32, {64}}) == std::vector<uint32_t>{0x3f85f7eeu, 0x3f816630u, 0x3f9166a9u, 0x3f819708u});
  REQUIRE(bits({"model.layers.0.self_attn.q_proj.bias", DType::kF32, {64}}) == std::vector<uint32_t>{0x3e2d0aeeu, 0xbdd5ef72u, 0x3cc3df90u, 0xbe1b9001u});
}

TEST_CASE("dummy: a slice has the values of the whole, in every format") {
  for (int i = 0; i <= static_cast<int>(DType::kMXFP4); ++i) {
    const auto dtype = static_cast<DType>(i);
    if (dtype == DType::kI32) continue;
    INFO(dtype_info(dtype).name);
    const DummyTensor tensor{"w", dtype, {8, 1024}};
    const auto whole = filled(tensor, 3, 0, 8 * 1024);
    const auto slice = filled(tensor, 3, 5 * 1024 + 512, 256);
    const auto at = static_cast<size_t>(row_bytes(dtype, 5 * 1024 + 512));
    REQUIRE(std::memcmp(whole.data() + at, slice.data(), slice.size()) == 0);
    REQUIRE(filled(tensor, 4, 0, 1024) != filled(tensor, 3, 0, 1024));
    REQUIRE(filled({"v", dtype, {8, 1024}}, 3, 0, 1024) != filled(tensor, 3, 0, 1024));
  }
}

TEST_CASE("dummy: matrices have a variance of one over fan-in, norms stay near one") {
  for (int i = 0; i <= static_cast<int>(DType::kMXFP4); ++i) {
    const auto dtype = static_cast<DType>(i);
    if (dtype == DType::kI32) continue;
    INFO(dtype_info(dtype).name);
    double sum = 0, squares = 0;
    const auto values = decoded({"w", dtype, {64, 1024}}, 9, 0, 64 * 1024);
    for (const float value : values) {
      REQUIRE(std::isfinite(value));
      sum += value;
      squares += static_cast<double>(value) * value;
    }
    const double deviation = std::sqrt(squares / 65536.0 * 1024.0);
    REQUIRE(deviation > 0.8);
    REQUIRE(deviation < 1.2);
    REQUIRE(std::fabs(sum / 65536.0) * 32.0 < 0.05);
  }
  for (const float value : decoded({"model.norm.weight", DType::kBF16, {4096}}, 1, 0, 4096)) {
    REQUIRE(std::fabs(value - 1.0f) < 0.36f);
  }
}

TEST_CASE("dummy: a checkpoint in memory lists, finds and refuses") {
  test::TempFolder folder;
  test::write_file(folder / "config.json", "{}");
  auto checkpoint = make_dummy_checkpoint(folder.path(), 7, {{"w", DType::kQ4_K, {4, 512}}, {"b", DType::kF32, {4}}});
  REQUIRE(checkpoint.ok());
  REQUIRE((*checkpoint)->tensors().size() == 2);
  REQUIRE((*checkpoint)->tensors()[0].name == "b");
  const TensorEntry* w = (*checkpoint)->find("w");
  REQUIRE(w->bytes == 4 * 2 * 144);
  REQUIRE(std::memcmp(w->data, filled({"w", DType::kQ4_K, {4, 512}}, 7, 0, 2048).data(), w->bytes) == 0);
  (*checkpoint)->release(*w);
  REQUIRE(std::memcmp(w->data, filled({"w", DType::kQ4_K, {4, 512}}, 7, 0, 2048).data(), w->bytes) == 0);
  REQUIRE(*(*checkpoint)->read_side_file("config.json", 10) == "{}");

  const auto refused = [&](DummyTensor tensor) {
    auto made = make_dummy_checkpoint(folder.path(), 7, {std::move(tensor)});
    return !made.ok() && made.error().code == ErrorCode::kInvalidArgument;
  };
  REQUIRE(refused({"w", DType::kQ4_K, {4, 500}}));
  REQUIRE(refused({"w", DType::kQ8_0, {64}}));
  REQUIRE(refused({"w", DType::kI32, {4, 4}}));
  REQUIRE(refused({"w", DType::kF32, {}}));
  REQUIRE(refused({"w", DType::kF32, {4, 0}}));
  REQUIRE_FALSE(make_dummy_checkpoint(folder.path(), 7, {{"w", DType::kF32, {4}}, {"w", DType::kF32, {4}}}).ok());
}
