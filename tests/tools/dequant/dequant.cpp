// The weights code behind a command line, for tests/formats (pytest), which compares it with other implementations.
//
//   dequant decode TYPE < blocks > floats      dequant encode TYPE < floats > blocks
//   dequant dummy SEED NAME TYPE FIRST COUNT DIM... > bytes
//   dequant list MODEL          one line per tensor: name, dtype, dimensions joined by x, sum over the bytes of (byte + 1) * (2 i + 1)
//   dequant meta MODEL          one line per scalar metadata key: name, value
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include "engine/weights/checkpoint.h"
#include "engine/weights/dummy_weights.h"
#include "kernels/formats.h"

namespace {

using namespace slipstream;

int fail(const std::string& message) {
  std::fprintf(stderr, "dequant: %s\n", message.c_str());
  return 2;
}

bool parse_dtype(const std::string& name, DType* out) {
  for (int i = 0; i <= static_cast<int>(DType::kF8E4M3); ++i) {
    *out = static_cast<DType>(i);
    if (dtype_info(*out).name == name) return true;
  }
  return false;
}

std::vector<std::byte> read_stdin() {
  const std::string text{std::istreambuf_iterator<char>(std::cin), {}};
  std::vector<std::byte> bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

void write_stdout(const void* data, size_t bytes) { std::fwrite(data, 1, bytes, stdout); }

int decode(DType dtype) {
  const std::vector<std::byte> blocks = read_stdin();
  const DTypeInfo& info = dtype_info(dtype);
  if (blocks.size() % static_cast<size_t>(info.block_bytes) != 0) return fail("not whole blocks");
  std::vector<float> values(blocks.size() / static_cast<size_t>(info.block_bytes) *
                            static_cast<size_t>(info.block_elements));
  dequantize_row(dtype, blocks.data(), values.data(), static_cast<int64_t>(values.size()));
  write_stdout(values.data(), values.size() * sizeof(float));
  return 0;
}

int encode(DType dtype) {
  const std::vector<std::byte> bytes = read_stdin();
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  const auto elements = static_cast<int64_t>(values.size());
  if (!can_quantize(dtype) || elements % dtype_info(dtype).block_elements != 0) return fail("cannot encode this");
  std::vector<std::byte> blocks(static_cast<size_t>(row_bytes(dtype, elements)));
  quantize_row(dtype, values.data(), blocks.data(), elements);
  write_stdout(blocks.data(), blocks.size());
  return 0;
}

int dummy(const std::vector<std::string>& args) {
  DummyTensor tensor;
  tensor.name = args[1];
  if (!parse_dtype(args[2], &tensor.dtype)) return fail("unknown type " + args[2]);
  for (size_t i = 5; i < args.size(); ++i) tensor.shape.push_back(std::atoll(args[i].c_str()));
  const int64_t count = std::atoll(args[4].c_str());
  std::vector<std::byte> bytes(static_cast<size_t>(row_bytes(tensor.dtype, count)));
  fill_dummy(std::strtoull(args[0].c_str(), nullptr, 10), tensor, std::atoll(args[3].c_str()), count, bytes.data());
  write_stdout(bytes.data(), bytes.size());
  return 0;
}

int list(const Checkpoint& checkpoint) {
  for (const TensorEntry& tensor : checkpoint.tensors()) {
    uint64_t sum = 0;  // depends on every byte and its place; quick in numpy too
    for (uint64_t i = 0; i < tensor.bytes; ++i) sum += (static_cast<uint64_t>(tensor.data[i]) + 1) * (2 * i + 1);
    std::string shape;
    for (const int64_t dimension : tensor.shape) shape += (shape.empty() ? "" : "x") + std::to_string(dimension);
    const std::string_view dtype = tensor.unserved.empty() ? dtype_info(tensor.dtype).name : tensor.unserved;
    std::printf("%s\t%.*s\t%s\t%016llx\n", tensor.name.c_str(), static_cast<int>(dtype.size()), dtype.data(),
                shape.c_str(), static_cast<unsigned long long>(sum));
  }
  return 0;
}

int meta(const Checkpoint& checkpoint) {
  for (const auto& [key, value] : checkpoint.metadata()) {
    if (const auto* number = std::get_if<uint64_t>(&value)) {
      std::printf("%s\t%llu\n", key.c_str(), static_cast<unsigned long long>(*number));
    } else if (const auto* integer = std::get_if<int64_t>(&value)) {
      std::printf("%s\t%lld\n", key.c_str(), static_cast<long long>(*integer));
    } else if (const auto* text = std::get_if<std::string>(&value)) {
      std::printf("%s\t%zu bytes\n", key.c_str(), text->size());
    } else if (const auto* flag = std::get_if<bool>(&value)) {
      std::printf("%s\t%s\n", key.c_str(), *flag ? "True" : "False");
    } else if (const auto* real = std::get_if<double>(&value)) {
      std::printf("%s\t%.17g\n", key.c_str(), *real);
    } else if (const auto* texts = std::get_if<std::vector<std::string>>(&value)) {
      std::printf("%s\t%zu strings\n", key.c_str(), texts->size());
    } else if (const auto* numbers = std::get_if<std::vector<int64_t>>(&value)) {
      std::printf("%s\t%zu numbers\n", key.c_str(), numbers->size());
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> args(argv + 1, argv + argc);
  if (args.size() >= 7 && args[0] == "dummy") return dummy({args.begin() + 1, args.end()});
  if (args.size() != 2) return fail("see the comment in dequant.cpp");
  if (args[0] == "list" || args[0] == "meta") {
    auto checkpoint = Checkpoint::open(args[1]);
    if (!checkpoint.ok()) return fail(checkpoint.error().message);
    return args[0] == "list" ? list(**checkpoint) : meta(**checkpoint);
  }
  DType dtype{};
  if (!parse_dtype(args[1], &dtype)) return fail("unknown type " + args[1]);
  if (args[0] == "decode") return decode(dtype);
  if (args[0] == "encode") return encode(dtype);
  return fail("unknown command " + args[0]);
}
