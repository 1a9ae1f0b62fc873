// A Checkpoint in memory, for tests: any names, shapes and metadata, F32 or any stored bytes, and side files.
#pragma once

#include <algorithm>
#include <list>
#include <map>
#include <string>
#include <vector>

#include "engine/weights/checkpoint.h"
#include "kernels/formats.h"

namespace slipstream::test {

class MemoryCheckpoint final : public Checkpoint {
 public:
  explicit MemoryCheckpoint(CheckpointKind kind) : kind_(kind) {}

  CheckpointKind kind() const override { return kind_; }
  const std::string& path() const override { return path_; }
  const std::vector<TensorEntry>& tensors() const override { return entries_; }
  const std::map<std::string, MetaValue, std::less<>>& metadata() const override { return metadata_; }
  Result<std::string> read_side_file(std::string_view name, uint64_t) const override {
    const auto it = files_.find(std::string(name));
    if (it == files_.end()) return not_found(std::string(name) + " is absent");
    return it->second;
  }
  void release(const TensorEntry& tensor) override { released_.push_back(tensor.name); }

  /// Stores values, rounded to dtype (one that kernels/formats.h can quantise).
  void add(const std::string& name, std::vector<int64_t> shape, const std::vector<float>& values,
           DType dtype = DType::kF32) {
    const int64_t cols = shape.back();
    const int64_t stride = row_bytes(dtype, cols);
    const auto rows = static_cast<int64_t>(values.size()) / cols;
    std::vector<std::byte> bytes(static_cast<size_t>(rows * stride));
    for (int64_t r = 0; r < rows; ++r) quantize_row(dtype, values.data() + r * cols, bytes.data() + r * stride, cols);
    add_stored(name, std::move(shape), dtype, std::move(bytes));
  }
  /// Stores bytes as they are.
  void add_stored(const std::string& name, std::vector<int64_t> shape, DType dtype, std::vector<std::byte> stored) {
    const std::vector<std::byte>& bytes = storage_.emplace_back(std::move(stored));
    remove(name);
    TensorEntry entry;
    entry.name = name;
    entry.dtype = dtype;
    entry.shape = std::move(shape);
    entry.data = bytes.data();
    entry.bytes = bytes.size();
    entries_.insert(std::upper_bound(entries_.begin(), entries_.end(), entry,
                                     [](const auto& a, const auto& b) { return a.name < b.name; }),
                    entry);
  }
  void remove(const std::string& name) {
    std::erase_if(entries_, [&](const TensorEntry& e) { return e.name == name; });
  }
  void set(const std::string& key, MetaValue value) { metadata_[key] = std::move(value); }
  void erase(const std::string& key) { metadata_.erase(key); }
  void set_file(const std::string& name, std::string text) { files_[name] = std::move(text); }
  const std::vector<std::string>& released() const { return released_; }

 private:
  CheckpointKind kind_;
  std::string path_ = "memory";
  std::vector<TensorEntry> entries_;
  std::list<std::vector<std::byte>> storage_;
  std::map<std::string, MetaValue, std::less<>> metadata_;
  std::map<std::string, std::string> files_;
  std::vector<std::string> released_;
};

}  // namespace slipstream::test
