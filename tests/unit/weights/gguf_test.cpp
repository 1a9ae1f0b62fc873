// The GGUF reader on files that are right, and its rules on files that are wrong in one place.
#include <cstring>
#include <functional>

#include "engine/weights/checkpoint.h"
#include "engine/weights/gguf_header.h"
#include "engine/weights/gguf_types.h"
#include "tests/catch.h"
#include "tests/unit/weights/model_files.h"

using namespace slipstream;
using namespace slipstream::test;

namespace {

std::span<const std::byte> view(const std::string& bytes) {
  return {reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()};
}

/// The message of the refusal, or "accepted".
std::string refusal(const std::string& bytes) {
  const auto header = read_gguf_header(view(bytes));
  return header.ok() ? "accepted" : header.error().message;
}

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

std::string refusal_with(const std::function<void(GgufFile&)>& change) {
  GgufFile file = small_gguf();
  change(file);
  return refusal(file.bytes());
}

}  // namespace

TEST_CASE("gguf: tensors have their dtype, reversed shape and bytes") {
  TempFolder folder;
  write_file(folder / "m.gguf", small_gguf().bytes());
  auto checkpoint = Checkpoint::open((folder / "m.gguf").string());
  REQUIRE(checkpoint.ok());
  REQUIRE((*checkpoint)->kind() == CheckpointKind::kGguf);
  REQUIRE((*checkpoint)->tensors().size() == 3);
  REQUIRE((*checkpoint)->total_bytes() == 128 + 204 + 32);
  const TensorEntry* b = (*checkpoint)->find("b");
  REQUIRE(b != nullptr);
  REQUIRE(b->dtype == DType::kQ8_0);
  REQUIRE(b->shape == std::vector<int64_t>{3, 64});
  REQUIRE(b->bytes == 3 * 2 * 34);
  REQUIRE(std::memcmp(b->data, counted_bytes(384).data() + 128, 204) == 0);
  REQUIRE((*checkpoint)->find("c") == nullptr);
  REQUIRE((*checkpoint)->require("c").error().code == ErrorCode::kNotFound);
  REQUIRE(contains((*checkpoint)->require("c").error().message, "\"c\" is missing"));

  const auto& metadata = (*checkpoint)->metadata();
  REQUIRE(std::get<std::string>(metadata.at("general.architecture")) == "llama");
  REQUIRE(std::get<uint64_t>(metadata.at("llama.block_count")) == 2);
  REQUIRE(std::get<std::vector<std::string>>(metadata.at("tokenizer.ggml.tokens")) ==
          std::vector<std::string>{"a", "bc", ""});

  (*checkpoint)->release(*b);
  REQUIRE(std::memcmp(b->data, counted_bytes(384).data() + 128, 204) == 0);
  REQUIRE((*checkpoint)->check_unchanged().ok());
  std::filesystem::resize_file(folder / "m.gguf", 5000);
  REQUIRE((*checkpoint)->check_unchanged().error().code == ErrorCode::kCorrupt);
}

TEST_CASE("gguf: every scalar and array type is read") {
  GgufFile file = small_gguf();
  const auto scalar = [&](const char* key, uint32_t type, auto value) {
    file.keys.push_back(Bytes().text(key).number(type).number(value).str());
  };
  scalar("u8", 0, uint8_t{200});
  scalar("i8", 1, int8_t{-3});
  scalar("u16", 2, uint16_t{60000});
  scalar("i16", 3, int16_t{-300});
  scalar("i32", 5, int32_t{-70000});
  scalar("f32", 6, 0.5f);
  scalar("bool", 7, uint8_t{1});
  scalar("u64", 10, UINT64_MAX);
  scalar("i64", 11, INT64_MIN);
  scalar("f64", 12, 0.1);
  const auto array = [&](const char* key, uint32_t type, auto first, auto second) {
    file.keys.push_back(
        Bytes().text(key).number<uint32_t>(9).number(type).number<uint64_t>(2).number(first).number(second).str());
  };
  array("a.u8", 0, uint8_t{1}, uint8_t{255});
  array("a.i16", 3, int16_t{-1}, int16_t{7});
  array("a.f32", 6, 1.5f, -2.0f);
  array("a.bool", 7, uint8_t{0}, uint8_t{1});
  array("a.u64", 10, uint64_t{5}, uint64_t{INT64_MAX});
  array("a.f64", 12, 0.1, 0.2);
  const std::string bytes = file.bytes();
  const auto header = read_gguf_header(view(bytes));
  REQUIRE(header.ok());
  const Metadata& m = header->metadata;
  REQUIRE(std::get<uint64_t>(m.at("u8")) == 200);
  REQUIRE(std::get<int64_t>(m.at("i8")) == -3);
  REQUIRE(std::get<uint64_t>(m.at("u16")) == 60000);
  REQUIRE(std::get<int64_t>(m.at("i16")) == -300);
  REQUIRE(std::get<int64_t>(m.at("i32")) == -70000);
  REQUIRE(std::get<double>(m.at("f32")) == 0.5);
  REQUIRE(std::get<bool>(m.at("bool")));
  REQUIRE(std::get<uint64_t>(m.at("u64")) == UINT64_MAX);
  REQUIRE(std::get<int64_t>(m.at("i64")) == INT64_MIN);
  REQUIRE(std::get<double>(m.at("f64")) == 0.1);
  REQUIRE(std::get<std::vector<int64_t>>(m.at("a.u8")) == std::vector<int64_t>{1, 255});
  REQUIRE(std::get<std::vector<int64_t>>(m.at("a.i16")) == std::vector<int64_t>{-1, 7});
  REQUIRE(std::get<std::vector<double>>(m.at("a.f32")) == std::vector<double>{1.5, -2.0});
  REQUIRE(std::get<std::vector<int64_t>>(m.at("a.bool")) == std::vector<int64_t>{0, 1});
  REQUIRE(std::get<std::vector<int64_t>>(m.at("a.u64")) == std::vector<int64_t>{5, INT64_MAX});
  REQUIRE(std::get<std::vector<double>>(m.at("a.f64")) == std::vector<double>{0.1, 0.2});
}

TEST_CASE("gguf: version 2, other alignments, a missing tail of padding and no tensors are accepted") {
  REQUIRE(refusal_with([](GgufFile& f) { f.version = 2; }) == "accepted");
  REQUIRE(refusal_with([](GgufFile& f) {
            f.keys.push_back(key_u32("general.alignment", 64));
            f.padding = 64;
            f.tensors[2].offset = 384;
            f.data = counted_bytes(416);
          }) == "accepted");
  REQUIRE(refusal_with([](GgufFile& f) { f.data += "trailing"; }) == "accepted");
  REQUIRE(refusal_with([](GgufFile& f) {
            f.tensors.clear();
            f.data.clear();
            f.padding = 1;
          }) == "accepted");
}

TEST_CASE("gguf: each rule of the header names what broke it") {
  const auto expect = [](const std::function<void(GgufFile&)>& change, std::string_view part) {
    const std::string message = refusal_with(change);
    INFO(message);
    REQUIRE(contains(message, part));
    REQUIRE_FALSE(contains(message, "\n"));
  };
  expect([](GgufFile& f) { f.magic = "GGML"; }, "not a GGUF file");
  expect([](GgufFile& f) { f.version = 1; }, "version 1 is not served");
  expect([](GgufFile& f) { f.version = 4; }, "version 4 is not served");
  expect([](GgufFile& f) { f.version = 0; }, "version 0 is not served");
  expect([](GgufFile& f) { f.version = 3u << 24; }, "big-endian");
  expect([](GgufFile& f) { f.key_count = 65537; }, "65537 metadata keys are over the limit of 65536");
  expect([](GgufFile& f) { f.key_count = 60000; }, "60000 metadata keys do not fit");
  expect([](GgufFile& f) { f.tensor_count = 1000001; }, "over the limit of 1000000");
  expect([](GgufFile& f) { f.tensor_count = UINT64_MAX - 1; }, "over the limit of 1000000");
  expect([](GgufFile& f) { f.tensor_count = 900000; }, "do not fit");
  expect([](GgufFile& f) { f.keys.push_back(key_u32("llama.block_count", 3)); }, "\"llama.block_count\" occurs twice");
  expect([](GgufFile& f) { f.keys.push_back(key_u32("", 3)); }, "metadata key 3 is empty");
  expect([](GgufFile& f) { f.keys.push_back(key_u32(std::string(256, 'k'), 3)); }, "length 256 is over the limit of 255");
  expect([](GgufFile& f) { f.keys.push_back(Bytes().text("x").number<uint32_t>(13).number<uint64_t>(0).str()); },
         "value type 13 is unknown");
  expect([](GgufFile& f) { f.keys.push_back(Bytes().text("x").number<uint32_t>(7).number<uint8_t>(2).str()); },
         "2 is not a bool");
  expect([](GgufFile& f) {
           f.keys.push_back(Bytes().text("x").number<uint32_t>(8).number<uint64_t>(1ull << 31).str());
         }, "over the limit of 1073741824");
  expect([](GgufFile& f) {
           f.keys.push_back(Bytes().text("x").number<uint32_t>(8).number<uint64_t>(1 << 20).str());
         }, "runs past the end");
  const auto array = [](uint32_t type, uint64_t count) {
    return Bytes().text("x").number<uint32_t>(9).number(type).number(count).str();
  };
  expect([&](GgufFile& f) { f.keys.push_back(array(9, 1)); }, "nested arrays");
  expect([&](GgufFile& f) { f.keys.push_back(array(13, 1)); }, "element type 13 is unknown");
  expect([&](GgufFile& f) { f.keys.push_back(array(4, UINT64_MAX / 2)); }, "elements run past the end");
  expect([&](GgufFile& f) { f.keys.push_back(array(8, 1000)); }, "1000 elements run past the end");
  expect([&](GgufFile& f) { f.keys.push_back(array(7, 1) + "\x02"); }, "element 0 is 2, over 1");
  expect([&](GgufFile& f) { f.keys.push_back(array(10, 1) + std::string(8, '\xff')); }, "over 9223372036854775807");
  for (const uint32_t alignment : {0u, 1u, 4u, 24u, 33u, 131072u}) {
    expect([&](GgufFile& f) { f.keys.push_back(key_u32("general.alignment", alignment)); }, "must be a power of two");
  }
  expect([](GgufFile& f) { f.keys.push_back(key_string("general.alignment", "32")); }, "must be a power of two");

  expect([](GgufFile& f) { f.tensors[1].name = ""; }, "tensor 1 has no name");
  expect([](GgufFile& f) { f.tensors[1].name = std::string(65, 'n'); }, "length 65 is over the limit of 64");
  expect([](GgufFile& f) { f.tensors[1].name = "a"; }, "tensor \"a\" occurs twice");
  expect([](GgufFile& f) { f.tensors[1].dims = {}; }, "0 dimensions");
  expect([](GgufFile& f) { f.tensors[1].dims = {32, 1, 1, 1, 1}; }, "5 dimensions");
  expect([](GgufFile& f) { f.tensors[1].dims = {64, 0}; }, "dimension 1 is 0");
  expect([](GgufFile& f) { f.tensors[1].dims = {64, 1ull << 63}; }, "dimension 1 is 9223372036854775808");
  expect([](GgufFile& f) { f.tensors[1].dims = {1ull << 32, 1ull << 32}; }, "overflows");
  expect([](GgufFile& f) { f.tensors[0].dims = {1ull << 62, 1}; }, "its size overflows");
  expect([](GgufFile& f) { f.tensors[0].dims = {1ull << 61, 1}; }, "ends at byte");
  expect([](GgufFile& f) { f.tensors[1].dims = {48, 3}; }, "do not hold whole Q8_0 blocks of 32");
  expect([](GgufFile& f) { f.tensors[1].offset = 136; }, "not a multiple of the alignment 32");
  expect([](GgufFile& f) { f.tensors[1].offset = 96; }, "tensors \"a\" and \"b\" overlap at byte 96");
  expect([](GgufFile& f) { f.tensors[2].offset = 384; }, "tensor \"norm\" ends at byte 416 of the data, which has 384");
  expect([](GgufFile& f) { f.tensors[2].offset = UINT64_MAX - 31; }, "overflows");
  expect([](GgufFile& f) { f.tensors[1].name = "bad\nname\x01"; f.tensors[1].type = 77; }, "\"bad\\nname\\u0001\"");
}

TEST_CASE("gguf: types that are not served are refused by name") {
  const auto expect = [](uint32_t type, ErrorCode code, std::string_view part) {
    const auto dtype = gguf_dtype(type);
    REQUIRE_FALSE(dtype.ok());
    INFO(dtype.error().message);
    REQUIRE(dtype.error().code == code);
    REQUIRE(contains(dtype.error().message, part));
  };
  for (const uint32_t removed : {4u, 5u, 31u, 32u, 33u, 36u, 37u, 38u}) {
    expect(removed, ErrorCode::kUnsupported, "was removed from GGUF");
  }
  expect(16, ErrorCode::kUnsupported, "IQ2_XXS (id 16) is recognised but not served; convert the model to one of F32");
  expect(29, ErrorCode::kUnsupported, "IQ1_M");
  expect(34, ErrorCode::kUnsupported, "TQ1_0");
  expect(40, ErrorCode::kUnsupported, "NVFP4");
  expect(137, ErrorCode::kUnsupported, "IQ2_K (id 137) exists only in ik_llama.cpp");
  expect(212, ErrorCode::kUnsupported, "row-interleaved");
  expect(43, ErrorCode::kCorrupt, "type id 43 is unknown");
  expect(UINT32_MAX, ErrorCode::kCorrupt, "is unknown");
  int served = 0;
  for (uint32_t id = 0; id < 500; ++id) served += gguf_dtype(id).ok() ? 1 : 0;
  REQUIRE(served == 17);
  REQUIRE(*gguf_dtype(39) == DType::kMXFP4);
  REQUIRE(*gguf_dtype(23) == DType::kIQ4_XS);

  GgufFile file = small_gguf();
  file.tensors[1].type = 18;
  REQUIRE(contains(refusal(file.bytes()), "tensor \"b\": type IQ3_XXS"));
}

namespace {

struct Splits {
  GgufFile first, second, third;
  explicit Splits() {
    first = small_gguf();
    first.tensors.resize(1);
    first.data = counted_bytes(128);
    first.keys.push_back(key_u16("split.no", 0));
    first.keys.push_back(key_u16("split.count", 3));
    first.keys.push_back(key_i32("split.tensors.count", 3));
    const auto other = [](uint16_t number, GgufTensor tensor, size_t bytes) {
      GgufFile file;
      tensor.offset = 0;
      file.keys = {key_u16("split.no", number), key_u16("split.count", 3), key_i32("split.tensors.count", 3)};
      file.tensors = {std::move(tensor)};
      file.data = counted_bytes(bytes);
      return file;
    };
    second = other(1, small_gguf().tensors[1], 204);
    third = other(2, small_gguf().tensors[2], 32);
  }
  void write(const TempFolder& folder) const {
    write_file(folder / "m-00001-of-00003.gguf", first.bytes());
    write_file(folder / "m-00002-of-00003.gguf", second.bytes());
    write_file(folder / "m-00003-of-00003.gguf", third.bytes());
  }
};

Result<std::unique_ptr<Checkpoint>> open_splits(const std::function<void(Splits&)>& change) {
  TempFolder folder;
  Splits splits;
  change(splits);
  splits.write(folder);
  return Checkpoint::open((folder / "m-00001-of-00003.gguf").string());
}

}  // namespace

TEST_CASE("gguf: splits are one checkpoint") {
  auto checkpoint = open_splits([](Splits&) {});
  REQUIRE(checkpoint.ok());
  REQUIRE((*checkpoint)->tensors().size() == 3);
  REQUIRE((*checkpoint)->tensors()[2].name == "norm");
  REQUIRE((*checkpoint)->find("b")->bytes == 204);
  REQUIRE(std::memcmp((*checkpoint)->find("b")->data, counted_bytes(204).data(), 204) == 0);
  REQUIRE(std::get<std::string>((*checkpoint)->metadata().at("general.architecture")) == "llama");

  auto empty_first = open_splits([](Splits& s) {
    s.second.tensors.insert(s.second.tensors.begin(), {"a", {4, 8}, 0, 224});
    s.second.data = counted_bytes(224 + 128);
    s.first.tensors.clear();
    s.first.data.clear();
  });
  REQUIRE(empty_first.ok());
  REQUIRE((*empty_first)->tensors().size() == 3);
}

TEST_CASE("gguf: splits that do not belong together are refused") {
  const auto expect = [](const std::function<void(Splits&)>& change, std::string_view part) {
    auto checkpoint = open_splits(change);
    REQUIRE_FALSE(checkpoint.ok());
    INFO(checkpoint.error().message);
    REQUIRE(contains(checkpoint.error().message, part));
  };
  expect([](Splits& s) { s.second.keys[0] = key_u16("split.no", 2); }, "split.no is 2, but the file's name says split 2");
  expect([](Splits& s) { s.third.keys[1] = key_u16("split.count", 4); }, "split.count is 4, but the file's name says 3");
  expect([](Splits& s) { s.first.keys.back() = key_i32("split.tensors.count", 4); },
         "split.tensors.count is 4, but the splits hold 3");
  expect([](Splits& s) { s.first.keys.back() = key_i32("split.tensors.count", -3); }, "not a non-negative integer");
  expect([](Splits& s) { s.third.tensors[0].name = "a"; }, "tensor \"a\" occurs in two of its files");
  expect([](Splits& s) { s.second.magic = "GGUX"; }, "m-00002-of-00003.gguf': not a GGUF file");

  TempFolder folder;
  Splits().write(folder);
  REQUIRE(contains(Checkpoint::open((folder / "m-00002-of-00003.gguf").string()).error().message,
                   "pass the first one, 'm-00001-of-00003.gguf'"));
  std::filesystem::remove(folder / "m-00003-of-00003.gguf");
  const auto missing = Checkpoint::open((folder / "m-00001-of-00003.gguf").string());
  REQUIRE(missing.error().code == ErrorCode::kNotFound);
  REQUIRE(contains(missing.error().message, "split 3 of 3 of this model"));
  write_file(folder / "renamed.gguf", Splits().first.bytes());
  REQUIRE(contains(Checkpoint::open((folder / "renamed.gguf").string()).error().message, "one of 3 splits"));
  write_file(folder / "z-00000-of-00000.gguf", Splits().first.bytes());
  REQUIRE(Checkpoint::open((folder / "z-00000-of-00000.gguf").string()).error().code == ErrorCode::kInvalidArgument);
}
