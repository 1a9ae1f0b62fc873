#include "tests/unit/weights/model_files.h"

#include <cstdlib>
#include <fstream>

#include "tests/catch.h"

namespace slipstream::test {

TempFolder::TempFolder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "slip-weights-XXXXXX").string();
  REQUIRE(::mkdtemp(pattern.data()) != nullptr);
  path_ = pattern;
}

TempFolder::~TempFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void write_file(const std::filesystem::path& path, std::string_view bytes) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  REQUIRE(file.good());
}

std::string GgufFile::bytes() const {
  Bytes out;
  out.raw(magic).number(version);
  out.number(tensor_count == UINT64_MAX ? tensors.size() : tensor_count);
  out.number(key_count == UINT64_MAX ? keys.size() : key_count);
  for (const std::string& key : keys) out.raw(key);
  for (const GgufTensor& tensor : tensors) {
    out.text(tensor.name).number(static_cast<uint32_t>(tensor.dims.size()));
    for (const uint64_t dimension : tensor.dims) out.number(dimension);
    out.number(tensor.type).number(tensor.offset);
  }
  out.pad(padding);
  return out.str() + data;
}

std::string key_u32(std::string_view key, uint32_t value) {
  return Bytes().text(key).number<uint32_t>(4).number(value).str();
}
std::string key_u16(std::string_view key, uint16_t value) {
  return Bytes().text(key).number<uint32_t>(2).number(value).str();
}
std::string key_i32(std::string_view key, int32_t value) {
  return Bytes().text(key).number<uint32_t>(5).number(value).str();
}
std::string key_string(std::string_view key, std::string_view value) {
  return Bytes().text(key).number<uint32_t>(8).text(value).str();
}
std::string key_strings(std::string_view key, const std::vector<std::string>& values) {
  Bytes out;
  out.text(key).number<uint32_t>(9).number<uint32_t>(8).number<uint64_t>(values.size());
  for (const std::string& value : values) out.text(value);
  return out.str();
}

std::string counted_bytes(size_t count) {
  std::string bytes(count, '\0');
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<char>((7 * i) % 251);
  return bytes;
}

GgufFile small_gguf() {
  GgufFile file;
  file.keys = {key_string("general.architecture", "llama"), key_u32("llama.block_count", 2),
               key_strings("tokenizer.ggml.tokens", {"a", "bc", ""})};
  file.tensors = {{"a", {4, 8}, 0, 0}, {"b", {64, 3}, 8, 128}, {"norm", {8}, 0, 352}};
  file.data = counted_bytes(384);
  return file;
}

std::string safetensors_bytes(std::string_view header, std::string_view data) {
  return Bytes().text(header).raw(data).str();
}

std::string small_safetensors_header() {
  return R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
         R"("b":{"dtype":"BF16","shape":[4],"data_offsets":[24,32]},)"
         R"("mask":{"dtype":"BOOL","shape":[3],"data_offsets":[32,35]}})";
}

std::string small_safetensors() { return safetensors_bytes(small_safetensors_header(), counted_bytes(35)); }

}  // namespace slipstream::test
