// Dummy weights made on the device against the host's law, bit for bit, and a prepared weight against one that was
// uploaded from the host's bytes.
#include <cstring>
#include <string>
#include <vector>

#include "engine/weights/dummy_weights.h"
#include "kernels/cuda/cuda_weight.h"
#include "kernels/cuda/dummy.h"
#include "tests/catch.h"

using namespace slipstream;
using namespace slipstream::cuda;

namespace {

constexpr DType kFormats[] = {DType::kF32,  DType::kF16,  DType::kBF16, DType::kQ4_0, DType::kQ4_1,   DType::kQ5_0,
                              DType::kQ5_1, DType::kQ8_0, DType::kQ2_K, DType::kQ3_K, DType::kQ4_K,   DType::kQ5_K,
                              DType::kQ6_K, DType::kIQ4_NL, DType::kIQ4_XS, DType::kMXFP4, DType::kF8E4M3};

constexpr float kF8Scale = 0.001f;

std::vector<std::byte> host_rows(uint64_t seed, const DummyTensor& tensor, int64_t first_col, int64_t cols) {
  const int64_t whole = tensor.shape[1];
  std::vector<std::byte> out(static_cast<size_t>(tensor.shape[0] * row_bytes(tensor.dtype, cols)));
  for (int64_t r = 0; r < tensor.shape[0]; ++r)
    fill_dummy(seed, tensor, r * whole + first_col, cols, out.data() + r * row_bytes(tensor.dtype, cols));
  return out;
}

std::vector<std::byte> download(Context& context, const void* device, size_t bytes) {
  std::vector<std::byte> out(bytes);
  context.synchronize();
  check(cudaMemcpy(out.data(), device, bytes, cudaMemcpyDeviceToHost), "download");
  return out;
}

}  // namespace

TEST_CASE("cuda dummy: the host's bits in every format, whole and as a slice of columns") {
  Context context(0);
  for (const DType dtype : kFormats)
    for (const int64_t cols : {256, 768, 12288}) {
      const DummyTensor tensor{"model.layers.3.mlp.down_proj.weight", dtype, {37, cols}};
      for (const bool slice : {false, true}) {
        const int64_t part = slice ? cols / 256 / 2 * 256 : cols;
        if (part == 0) continue;
        const int64_t first = cols - part;
        const std::vector<std::byte> expected = host_rows(11, tensor, first, part);
        Buffer out = context.allocate(expected.size());
        const DummyValues values{dummy_key(11, tensor.name), cols, first};
        fill_dummy(context, dtype, values, 0, 20, part, out.as<std::byte>());
        fill_dummy(context, dtype, values, 20, 17, part, out.as<std::byte>() + 20 * row_bytes(dtype, part));
        INFO(dtype_info(dtype).name << " of " << cols << " columns, from " << first);
        CHECK(download(context, out.data(), expected.size()) == expected);
        CHECK(expected != std::vector<std::byte>(expected.size()));
      }
    }
}

TEST_CASE("cuda dummy: rows past one grid and past 2^32 elements") {
  Context context(0);
  // 70,000 rows pass the grid's rows; the element index of the last ones passes 32 bits
  const DummyTensor tensor{"lm_head.weight", DType::kBF16, {70000, 65536}};
  const int64_t cols = 64;
  Buffer out = context.allocate(static_cast<size_t>(70000 * cols * 2));
  fill_dummy(context, DType::kBF16, {dummy_key(5, tensor.name), 65536, 128}, 0, 70000, cols, out.as<std::byte>());
  const std::vector<std::byte> made = download(context, out.data(), out.bytes());
  for (const int64_t row : {0, 1, 65534, 65535, 65536, 69999}) {
    std::vector<std::byte> expected(static_cast<size_t>(cols * 2));
    fill_dummy(5, tensor, row * 65536 + 128, cols, expected.data());
    INFO("row " << row);
    CHECK(std::memcmp(made.data() + row * cols * 2, expected.data(), expected.size()) == 0);
  }
}

TEST_CASE("cuda dummy: a prepared weight is the one of the host's bytes") {
  Context context(0);
  for (const DType dtype : kFormats) {
    // three parts, one of them no whole tile, so that segments split; the last is large enough for several chunks
    std::vector<DummyTensor> tensors = {{"q", dtype, {64, 1024}}, {"k", dtype, {24, 1024}}, {"v", dtype, {24, 1024}}};
    if (dtype == DType::kQ4_K || dtype == DType::kBF16) tensors.push_back({"big", dtype, {70000, 1024}});
    WeightSpec stored, made;
    std::vector<std::vector<std::byte>> bytes;
    for (const DummyTensor& t : tensors) bytes.push_back(host_rows(3, t, 0, 1024));
    for (size_t i = 0; i < tensors.size(); ++i) {
      WeightPart part;
      part.name = tensors[i].name, part.dtype = dtype, part.rows = tensors[i].shape[0], part.cols = 1024;
      part.data = bytes[i].data(), part.row_stride_bytes = row_bytes(dtype, 1024);
      if (dtype == DType::kF8E4M3) {  // one scale of the whole part
        part.scales.data = reinterpret_cast<const std::byte*>(&kF8Scale);
        part.scales.block_rows = part.scales.block_cols = WeightScales::kWholeSide;
      }
      stored.parts.push_back(part);
      part.data = nullptr;
      part.dummy = {dummy_key(3, tensors[i].name), 1024, 0};
      made.parts.push_back(part);
    }
    const auto a = make_cuda_weight(context, stored);
    const auto b = make_cuda_weight(context, made);
    REQUIRE(a->resident_bytes() == b->resident_bytes());
    REQUIRE(a->segments().size() == b->segments().size());
    INFO(dtype_info(dtype).name);
    // the weight is one allocation that begins at its first segment
    const auto size = static_cast<size_t>(a->resident_bytes());
    CHECK(download(context, a->segments().front().data, size) == download(context, b->segments().front().data, size));
  }
}
