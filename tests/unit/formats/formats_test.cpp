// Block formats against what the gguf package made of the same bytes (tests/formats/make_golden.py), and the half
// conversions against the definition of rounding.
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "kernels/formats.h"
#include "tests/catch.h"

using namespace slipstream;

namespace {

struct Record {
  std::string name;
  bool encode = false;
  std::vector<std::byte> stored;
  std::vector<float> values;
};

std::vector<Record> read_golden() {
  std::ifstream file(SLIP_FIXTURES "/formats/golden.bin", std::ios::binary);
  std::string version;
  std::getline(file, version);
  std::vector<Record> records;
  char name[16];
  while (file.read(name, sizeof name)) {
    uint32_t numbers[3];
    file.read(reinterpret_cast<char*>(numbers), sizeof numbers);
    Record record;
    record.name = name;
    record.encode = numbers[0] == 1;
    record.stored.resize(numbers[1]);
    record.values.resize(numbers[2]);
    file.read(reinterpret_cast<char*>(record.stored.data()), numbers[1]);
    file.read(reinterpret_cast<char*>(record.values.data()), static_cast<std::streamsize>(numbers[2] * sizeof(float)));
    records.push_back(std::move(record));
  }
  return records;
}

DType dtype_named(const std::string& name) {
  for (int i = 0; i <= static_cast<int>(DType::kMXFP4); ++i) {
    if (dtype_info(static_cast<DType>(i)).name == name) return static_cast<DType>(i);
  }
  FAIL("no dtype " << name);
  return DType::kF32;
}

bool same(float a, float b) {
  return std::isnan(a) ? std::isnan(b) : std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
}

}  // namespace

TEST_CASE("every served format decodes as the gguf package does") {
  std::map<std::string, int> seen;
  for (const Record& record : read_golden()) {
    if (record.encode) continue;
    INFO(record.name);
    std::vector<float> values(record.values.size(), -1.0f);
    dequantize_row(dtype_named(record.name), record.stored.data(), values.data(), static_cast<int64_t>(values.size()));
    int finite = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      if (!same(values[i], record.values[i])) FAIL("element " << i << ": " << values[i] << " != " << record.values[i]);
      finite += std::isfinite(values[i]) ? 1 : 0;
    }
    REQUIRE(finite > static_cast<int>(values.size() / 2));
    seen[record.name] = finite;
  }
  REQUIRE(seen.size() == 15);  // all but F32 and I32
}

TEST_CASE("blocks need no alignment") {
  for (const Record& record : read_golden()) {
    if (record.encode) continue;
    std::vector<std::byte> shifted(record.stored.size() + 1);
    std::memcpy(shifted.data() + 1, record.stored.data(), record.stored.size());
    std::vector<float> values(record.values.size());
    dequantize_row(dtype_named(record.name), shifted.data() + 1, values.data(), static_cast<int64_t>(values.size()));
    REQUIRE(same(values.back(), record.values.back()));
  }
}

TEST_CASE("quantisers round as the gguf package does") {
  int seen = 0;
  for (const Record& record : read_golden()) {
    if (!record.encode) continue;
    INFO(record.name);
    const DType dtype = dtype_named(record.name);
    REQUIRE(can_quantize(dtype));
    const auto elements = static_cast<int64_t>(record.values.size());
    std::vector<std::byte> stored(static_cast<size_t>(row_bytes(dtype, elements)));
    quantize_row(dtype, record.values.data(), stored.data(), elements);
    REQUIRE(stored == record.stored);
    ++seen;
  }
  REQUIRE(seen == 7);
  REQUIRE_FALSE(can_quantize(DType::kQ4_K));
  REQUIRE_FALSE(can_quantize(DType::kI32));
}

TEST_CASE("f16 to f32 is the IEEE definition") {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const int exponent = static_cast<int>(bits >> 10) & 31;
    const int mantissa = static_cast<int>(bits) & 1023;
    const float value = f16_to_f32(static_cast<uint16_t>(bits));
    REQUIRE(std::signbit(value) == (bits >= 32768));
    if (exponent == 31) {
      REQUIRE((mantissa == 0 ? std::isinf(value) : std::isnan(value)));
      continue;
    }
    const double expected = exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
    REQUIRE(std::fabs(static_cast<double>(value)) == expected);
    REQUIRE(f32_to_f16(value) == bits);
  }
}

TEST_CASE("e4m3 is its definition, and the way back rounds to nearest, ties to even") {
  double levels[127];
  for (int code = 0; code < 256; ++code) {
    const int exponent = (code >> 3) & 15;
    const int mantissa = code & 7;
    const float value = e4m3_to_f32(static_cast<uint8_t>(code));
    REQUIRE(std::signbit(value) == (code >= 128));
    if ((code & 127) == 127) {
      REQUIRE(std::isnan(value));
      continue;
    }
    const double expected = exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
    REQUIRE(std::fabs(static_cast<double>(value)) == expected);
    REQUIRE(f32_to_e4m3(value) == code);
    if (code < 127) levels[code] = expected;
  }
  REQUIRE(levels[126] == 448.0);
  for (int code = 0; code < 126; ++code) {
    const double middle = (levels[code] + levels[code + 1]) / 2;  // exact in a float
    const auto at = static_cast<float>(middle);
    REQUIRE(f32_to_e4m3(at) == code + code % 2);
    REQUIRE(f32_to_e4m3(std::nextafter(at, 0.0f)) == code);
    REQUIRE(f32_to_e4m3(std::nextafter(at, 1e9f)) == code + 1);
    REQUIRE(f32_to_e4m3(-at) == 128 + code + code % 2);
  }
  REQUIRE(f32_to_e4m3(1e30f) == 0x7e);
  REQUIRE(f32_to_e4m3(-INFINITY) == 0xfe);
  REQUIRE(f32_to_e4m3(NAN) == 0x7f);
}

TEST_CASE("f32 to f16 and bf16 give the nearest value, ties to even") {
  std::mt19937 random(5);
  int64_t ties = 0;
  for (int i = 0; i < 300000; ++i) {
    // Half of the values in f16's range, and of those many exactly between two neighbours.
    uint32_t bits = random();
    if (i % 2 == 0) bits = (bits & 0x80ffffffu) | ((100 + bits % 45) << 23);
    if (i % 4 == 0) bits &= ~0xfffu;
    const float value = std::bit_cast<float>(bits);
    if (!std::isfinite(value)) continue;
    const double exact = value;

    const uint16_t half = f32_to_f16(value);
    if (std::fabs(exact) < 65520) {
      const double error = std::fabs(f16_to_f32(half) - exact);
      for (const int step : {-1, 1}) {
        const auto neighbour = static_cast<uint16_t>(half + step);
        if (((neighbour ^ half) & 0x8000) != 0 || (neighbour & 0x7fff) > 0x7bff) continue;
        const double other = std::fabs(f16_to_f32(neighbour) - exact);
        if (other < error || (other == error && (half & 1) != 0)) FAIL("f16 of " << value);
        ties += other == error ? 1 : 0;
      }
    } else {
      REQUIRE((half & 0x7fff) == 0x7c00);
    }

    const uint16_t brain = f32_to_bf16(value);
    if (std::fabs(exact) < 3.39e38) {
      const double error = std::fabs(bf16_to_f32(brain) - exact);
      for (const int step : {-1, 1}) {
        const auto neighbour = static_cast<uint16_t>(brain + step);
        if (((neighbour ^ brain) & 0x8000) != 0 || (neighbour & 0x7fff) > 0x7f7f) continue;
        const double other = std::fabs(bf16_to_f32(neighbour) - exact);
        if (other < error || (other == error && (brain & 1) != 0)) FAIL("bf16 of " << value);
      }
    }
  }
  REQUIRE(ties > 1000);
  REQUIRE(f32_to_f16(65519.996f) == 0x7bff);
  REQUIRE(f32_to_f16(65520.0f) == 0x7c00);
  REQUIRE(f32_to_bf16(3.4028235e38f) == 0x7f80);
  REQUIRE(std::isnan(f16_to_f32(f32_to_f16(std::nanf("")))));
  REQUIRE(std::isnan(bf16_to_f32(f32_to_bf16(std::bit_cast<float>(0x7f800001u)))));  // its payload is all below
}

TEST_CASE("an exponent of 255 in MXFP4 overflows only where the value does") {
  std::byte block[17] = {std::byte{255}, std::byte{0x10}, std::byte{0xf2}};
  float values[32];
  dequantize_row(DType::kMXFP4, block, values, 32);
  REQUIRE(values[0] == 0.0f);
  REQUIRE(values[16] == std::ldexp(1.0f, 127));
  REQUIRE(std::isinf(values[17]));
  REQUIRE(std::signbit(values[17]));
}
