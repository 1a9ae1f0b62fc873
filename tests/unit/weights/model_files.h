// Writes small model files for the tests, field by field, so that any field can be wrong. Knows both containers, but
// shares no code with the readers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace slipstream::test {

/// A fresh folder that is deleted with the object.
class TempFolder {
 public:
  TempFolder();
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  std::filesystem::path operator/(std::string_view name) const { return path_ / name; }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

void write_file(const std::filesystem::path& path, std::string_view bytes);

/// Little-endian pieces of a file.
class Bytes {
 public:
  template <typename T>
  Bytes& number(T value) {
    text_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  Bytes& raw(std::string_view text) {
    text_ += text;
    return *this;
  }
  /// u64 length, then the bytes.
  Bytes& text(std::string_view value) { return number<uint64_t>(value.size()).raw(value); }
  Bytes& pad(size_t alignment) {
    while (text_.size() % alignment != 0) text_ += '\0';
    return *this;
  }
  const std::string& str() const { return text_; }
  size_t size() const { return text_.size(); }

 private:
  std::string text_;
};

struct GgufTensor {
  std::string name;
  std::vector<uint64_t> dims;  // fastest first, as GGUF stores them
  uint32_t type = 0;
  uint64_t offset = 0;
};

/// A GGUF file in parts. The data section is `data`, after padding to `padding`.
struct GgufFile {
  std::string magic = "GGUF";
  uint32_t version = 3;
  uint64_t tensor_count = UINT64_MAX;  // UINT64_MAX: as many as there are
  uint64_t key_count = UINT64_MAX;
  std::vector<std::string> keys;  // each encoded: key, type, value
  std::vector<GgufTensor> tensors;
  uint64_t padding = 32;
  std::string data;
  std::string bytes() const;
};

std::string key_u32(std::string_view key, uint32_t value);
std::string key_u16(std::string_view key, uint16_t value);
std::string key_i32(std::string_view key, int32_t value);
std::string key_string(std::string_view key, std::string_view value);
std::string key_strings(std::string_view key, const std::vector<std::string>& values);

/// Three tensors: "a" F32 [4, 8] (GGUF order), "b" Q8_0 [64, 3], "norm" F32 [8]; a few metadata keys. Byte i of the
/// data is (7 * i) mod 251.
GgufFile small_gguf();

/// u64 header length, header, data.
std::string safetensors_bytes(std::string_view header, std::string_view data);
/// Tensors "a" F32 [2, 3] at 0, "b" BF16 [4] at 24, "mask" BOOL [3] at 32: 35 bytes of data.
std::string small_safetensors_header();
std::string small_safetensors();
std::string counted_bytes(size_t count);

}  // namespace slipstream::test
