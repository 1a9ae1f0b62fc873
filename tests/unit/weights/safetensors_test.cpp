// The safetensors reader on folders that are right, and its rules on files that are wrong in one place.
#include <cstring>

#include "engine/weights/checkpoint.h"
#include "engine/weights/safetensors_header.h"
#include "engine/weights/safetensors_index.h"
#include "tests/catch.h"
#include "tests/unit/weights/model_files.h"

using namespace slipstream;
using namespace slipstream::test;

namespace {

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

std::string refusal(const std::string& bytes) {
  const auto tensors = read_safetensors_header({reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()});
  return tensors.ok() ? "accepted" : tensors.error().message;
}

/// The valid header with one piece of text replaced.
std::string refusal_of(std::string_view from, std::string_view to) {
  std::string header = small_safetensors_header();
  const size_t at = header.find(from);
  REQUIRE(at != std::string::npos);
  header.replace(at, from.size(), to);
  return refusal(safetensors_bytes(header, counted_bytes(35)));
}

std::string one_tensor(std::string_view dtype, std::string_view shape, size_t bytes) {
  const std::string header = R"({"t":{"dtype":")" + std::string(dtype) + R"(","shape":[)" + std::string(shape) +
                             R"(],"data_offsets":[0,)" + std::to_string(bytes) + "]}}";
  return safetensors_bytes(header, counted_bytes(bytes));
}

}  // namespace

TEST_CASE("safetensors: a single file is listed with dtype, shape and bytes") {
  TempFolder folder;
  write_file(folder / "model.safetensors", small_safetensors());
  write_file(folder / "config.json", "{\"x\": 1}");
  auto checkpoint = Checkpoint::open(folder.path());
  REQUIRE(checkpoint.ok());
  REQUIRE((*checkpoint)->kind() == CheckpointKind::kSafetensors);
  REQUIRE((*checkpoint)->metadata().empty());
  REQUIRE((*checkpoint)->tensors().size() == 3);
  const auto a = (*checkpoint)->require("a");
  REQUIRE(a.ok());
  REQUIRE((*a)->dtype == DType::kF32);
  REQUIRE((*a)->shape == std::vector<int64_t>{2, 3});
  REQUIRE(std::memcmp((*a)->data, counted_bytes(24).data(), 24) == 0);
  REQUIRE((*checkpoint)->find("b")->dtype == DType::kBF16);
  REQUIRE((*checkpoint)->find("b")->bytes == 8);

  // A dtype that no kernel reads is listed, and refused by whoever needs it.
  REQUIRE((*checkpoint)->find("mask")->unserved == "BOOL");
  REQUIRE((*checkpoint)->find("a")->unserved.empty());
  const auto mask = (*checkpoint)->require("mask");
  REQUIRE(mask.error().code == ErrorCode::kUnsupported);
  REQUIRE(contains(mask.error().message, "\"mask\" has dtype BOOL"));

  REQUIRE(*(*checkpoint)->read_side_file("config.json", 100) == "{\"x\": 1}");
  REQUIRE((*checkpoint)->read_side_file("config.json", 7).error().code == ErrorCode::kCorrupt);
  REQUIRE((*checkpoint)->read_side_file("tokenizer.json", 100).error().code == ErrorCode::kNotFound);
}

TEST_CASE("safetensors: what the format allows is accepted") {
  REQUIRE(refusal(small_safetensors()) == "accepted");
  REQUIRE(refusal(safetensors_bytes("{}", "")) == "accepted");
  REQUIRE(refusal(safetensors_bytes(small_safetensors_header() + "     ", counted_bytes(35))) == "accepted");
  REQUIRE(refusal(one_tensor("F32", "", 4)) == "accepted");        // a scalar
  REQUIRE(refusal(one_tensor("BF16", "3,0,5", 0)) == "accepted");  // empty
  REQUIRE(refusal(one_tensor("F4", "2,3", 3)) == "accepted");
  for (const char* dtype : {"U8", "I8", "BOOL", "F8_E4M3", "F8_E5M2", "F8_E8M0"}) {
    REQUIRE(refusal(one_tensor(dtype, "7", 7)) == "accepted");
  }
  for (const char* dtype : {"F64", "I64", "U64", "C64"}) REQUIRE(refusal(one_tensor(dtype, "2", 16)) == "accepted");
  // The order in the header need not be that of the data.
  REQUIRE(refusal(safetensors_bytes(R"({"x":{"dtype":"I32","shape":[1],"data_offsets":[4,8]},)"
                                    R"("y":{"dtype":"F16","shape":[2],"data_offsets":[0,4]}})",
                                    counted_bytes(8))) == "accepted");
}

TEST_CASE("safetensors: each rule of the header names what broke it") {
  const auto expect = [](const std::string& message, std::string_view part) {
    INFO(message);
    REQUIRE(contains(message, part));
    REQUIRE_FALSE(contains(message, "\n"));
  };
  expect(refusal(""), "0 bytes, fewer than 8");
  expect(refusal("1234567"), "7 bytes, fewer than 8");
  expect(refusal(Bytes().number<uint64_t>(100'000'001).str()), "over the limit of 100000000");
  expect(refusal(Bytes().number<uint64_t>(UINT64_MAX).str()), "over the limit of 100000000");
  expect(refusal(Bytes().number<uint64_t>(3).raw("{}").str()), "the header has 3 bytes, but the file only 10");
  expect(refusal(safetensors_bytes("", "")), "does not start with {");
  expect(refusal(safetensors_bytes(" {}", "")), "does not start with {");
  expect(refusal(safetensors_bytes("{", "")), "not valid JSON");
  expect(refusal(safetensors_bytes("{}x", "")), "not valid JSON");
  expect(refusal(safetensors_bytes("{\"\xff\":{}}", "")), "not valid JSON");
  expect(refusal(safetensors_bytes("{\"a\":[]}", "")), "must not be an array");
  expect(refusal(safetensors_bytes("{\"a\":1}", "")), "must not be a number");
  expect(refusal(safetensors_bytes("{\"a\":{\"b\":{\"c\":{}}}}", "")), "nests deeper than 3");
  expect(refusal(safetensors_bytes(std::string(60000, '{'), "")), "nests deeper than 3");
  expect(refusal(safetensors_bytes("{\"a\":{\"shape\":[" + std::string(100, '1') + "]}}", "")), "JSON token at byte");
  expect(refusal(safetensors_bytes("{\"" + std::string((1 << 20) + 1, 'n') + "\":{}}", "")), "longer than 1048576");
  expect(refusal(safetensors_bytes("{\"" + std::string(256, 'n') + "\":{}}", "")), "a name has 1 to 255 bytes");
  expect(refusal(safetensors_bytes("{\"\":{}}", "")), "a name has 1 to 255 bytes");
  expect(refusal(safetensors_bytes(R"({"__metadata__":{},"__metadata__":{}})", "")), "__metadata__ occurs twice");
  expect(refusal(safetensors_bytes(R"({"__metadata__":{"a":1}})", "")), "must not be a number");

  expect(refusal_of("\"mask\"", "\"a\""), "tensor \"a\" occurs twice");
  expect(refusal_of("\"dtype\":\"F32\"", "\"dtype\":\"F32\",\"dtype\":\"F32\""), "key \"dtype\" occurs twice");
  expect(refusal_of("\"dtype\":\"F32\",", ""), "dtype, shape and data_offsets are all needed");
  expect(refusal_of("\"dtype\":\"F32\"", "\"dtype\":\"F33\""), "dtype \"F33\" is unknown");
  expect(refusal_of("\"dtype\":\"F32\"", "\"dtype\":null"), "must not be null");
  expect(refusal_of("\"dtype\":\"F32\"", "\"extra\":\"F32\""), "key \"extra\" is unknown");
  expect(refusal_of("[2,3]", "[2,-3]"), "must not be a negative number");
  expect(refusal_of("[2,3]", "[2,3.0]"), "must not be a fraction");
  expect(refusal_of("[2,3]", "[2,99999999999999999999]"), "must not be a fraction or too large");
  expect(refusal_of("[2,3]", "[2,9223372036854775808]"), "dimension 9223372036854775808 is out of range");
  expect(refusal_of("[2,3]", "[4294967296,4294967296]"), "overflows");
  expect(refusal_of("[2,3]", "[4611686018427387904]"), "overflows");
  expect(refusal_of("[2,3]", "[1,1,1,1,1,1,1,2,3]"), "more than 8 dimensions");
  expect(refusal_of("[2,3]", "[2,4]"), "needs 32 bytes, but data_offsets span 24");
  expect(refusal_of("[2,3]", "6"), "must not be a number");
  expect(refusal_of("[0,24]", "[24,0]"), "data_offsets run backwards");
  expect(refusal_of("[0,24]", "[0]"), "data_offsets needs 2 numbers");
  expect(refusal_of("[0,24]", "[0,24,24]"), "data_offsets needs 2 numbers");
  expect(refusal_of("[24,32]", "[20,28]"), "tensors \"a\" and \"b\" overlap at byte 20");
  expect(refusal_of("[24,32]", "[25,33]"), "bytes 24 to 25 of the data, before tensor \"b\", belong to no tensor");
  expect(refusal_of("[32,35]", "[33,36]"), "tensor \"mask\" ends at byte 36 of the data, which has 35");
  expect(refusal(one_tensor("F4", "3", 1)), "does not fill whole bytes");
  expect(refusal(small_safetensors() + "x"), "the data has 36 bytes, but the tensors end at 35");
  expect(refusal(small_safetensors().substr(0, small_safetensors().size() - 1)),
         "tensor \"mask\" ends at byte 35 of the data, which has 34");
}

TEST_CASE("safetensors: the index gives the map and refuses what is ambiguous") {
  const auto map = read_safetensors_index(
      R"({"metadata":{"total_size":9,"weight_map":{"no":"no"}},"weight_map":{"a":"x","b":"y"},"more":[{"c":["d"]}]})");
  REQUIRE(map.ok());
  REQUIRE(*map == WeightMap{{"a", "x"}, {"b", "y"}});
  const auto refused = [](std::string_view json) { return read_safetensors_index(json).error().message; };
  REQUIRE(contains(refused("{}"), "no \"weight_map\""));
  REQUIRE(contains(refused("[{\"weight_map\":{}}]"), "no \"weight_map\""));
  REQUIRE(contains(refused("{\"weight_map\":[]}"), "no \"weight_map\""));
  REQUIRE(contains(refused("{\"weight_map\":{\"a\":\"x\",\"a\":\"x\"}}"), "\"a\" occurs twice"));
  REQUIRE(contains(refused("{\"weight_map\":{},\"weight_map\":{}}"), "weight_map occurs twice"));
  REQUIRE(contains(refused("{\"weight_map\":{\"a\":7}}"), "is not a file name"));
  REQUIRE(contains(refused("{\"weight_map\":{\"a\":{}}}"), "is not a file name"));
  REQUIRE(contains(refused("{\"weight_map\":{\"a\":[\"x\"]}}"), "is not a file name"));
  REQUIRE(contains(refused("{\"weight_map\":{\"a\":\"\"}}"), "1 to 255 bytes"));
  REQUIRE(contains(refused("{\"weight_map\":{\"a\":\"x\"}"), "not valid JSON"));
  REQUIRE(contains(refused(std::string(40, '[')), "nests deeper than 16"));
}

namespace {

constexpr std::string_view kShardA = R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
constexpr std::string_view kShardB = R"({"b":{"dtype":"F16","shape":[2],"data_offsets":[0,4]}})";

Result<std::unique_ptr<Checkpoint>> open_shards(std::string_view map, std::string_view shard_a = kShardA,
                                                std::string_view shard_b = kShardB) {
  TempFolder folder;
  write_file(folder / "model.safetensors.index.json", "{\"weight_map\":{" + std::string(map) + "}}");
  write_file(folder / "one.safetensors", safetensors_bytes(shard_a, "1234"));
  write_file(folder / "two.safetensors", safetensors_bytes(shard_b, "5678"));
  write_file(folder.path() + "-outside.safetensors", safetensors_bytes(shard_b, "5678"));
  auto opened = Checkpoint::open(folder.path());
  std::filesystem::remove(folder.path() + "-outside.safetensors");
  return opened;
}

}  // namespace

TEST_CASE("safetensors: shards are one checkpoint, and must match their index") {
  auto checkpoint = open_shards(R"("a":"one.safetensors","b":"two.safetensors")");
  REQUIRE(checkpoint.ok());
  REQUIRE((*checkpoint)->tensors().size() == 2);
  REQUIRE(std::memcmp((*checkpoint)->find("b")->data, "5678", 4) == 0);

  const auto expect = [](const Result<std::unique_ptr<Checkpoint>>& opened, std::string_view part) {
    REQUIRE_FALSE(opened.ok());
    INFO(opened.error().message);
    REQUIRE(contains(opened.error().message, part));
  };
  expect(open_shards(R"("a":"one.safetensors","b":"one.safetensors")"), "\"b\" is missing from \"one.safetensors\"");
  expect(open_shards(R"("a":"two.safetensors","b":"two.safetensors")"), "\"a\" is missing from \"two.safetensors\"");
  expect(open_shards(R"("a":"one.safetensors","b":"two.safetensors","c":"two.safetensors")"), "\"c\" is missing");
  expect(open_shards(R"("a":"one.safetensors","c":"two.safetensors")"), "\"b\" of \"two.safetensors\" is not in");
  expect(open_shards(R"("a":"two.safetensors","b":"one.safetensors")"),
         "\"a\" is in \"one.safetensors\", but weight_map says \"two.safetensors\"");
  expect(open_shards(R"("a":"one.safetensors","b":"two.safetensors")", kShardA, kShardA),
         "\"a\" is in \"two.safetensors\", but");
  expect(open_shards(R"("a":"one.safetensors","b":"gone.safetensors")"), "gone.safetensors': No such file");
  for (const char* name : {"../two.safetensors", "/etc/passwd", "..", ".", "sub/two.safetensors"}) {
    expect(open_shards(R"("a":"one.safetensors","b":")" + std::string(name) + "\""), "is not a plain file name");
  }
}

TEST_CASE("a folder or file that is no model says what was looked for") {
  TempFolder folder;
  const auto error = [&](const std::string& path) { return Checkpoint::open(path).error(); };
  REQUIRE(error(folder.path() + "/gone").code == ErrorCode::kNotFound);
  REQUIRE(contains(error(folder.path()).message, "holds neither model.safetensors nor"));
  write_file(folder / "pytorch_model.bin", "x");
  REQUIRE(contains(error(folder.path()).message, "convert them to safetensors"));
  write_file(folder / "part.safetensors", small_safetensors());
  REQUIRE(contains(error((folder / "part.safetensors").string()).message, "pass its folder"));
  write_file(folder / "note.txt", "hello");
  REQUIRE(contains(error((folder / "note.txt").string()).message, "not a GGUF file"));
  write_file(folder / "empty.gguf", "");
  REQUIRE(contains(error((folder / "empty.gguf").string()).message, "not a GGUF file"));
  std::filesystem::remove(folder / "empty.gguf");

  write_file(folder / "one.gguf", small_gguf().bytes());
  auto only = Checkpoint::open(folder.path());
  REQUIRE(only.ok());
  REQUIRE((*only)->tensors().size() == 3);
  write_file(folder / "two.gguf", small_gguf().bytes());
  REQUIRE(contains(error(folder.path()).message, "holds 2 GGUF models; pass the path of one: one.gguf, two.gguf"));
}
