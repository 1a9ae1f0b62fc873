// What both containers share once their headers are read: tensors over a set of mapped files, side files, release.
// Owns the mappings; knows no header format.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/weights/checkpoint.h"
#include "engine/weights/mapped_file.h"
#include "engine/weights/model_folder.h"

namespace slipstream {

class MappedCheckpoint final : public Checkpoint {
 public:
  struct Contents {
    CheckpointKind kind = CheckpointKind::kGguf;
    std::string path;
    std::vector<std::unique_ptr<MappedFile>> files;
    std::vector<TensorEntry> tensors;  // in any order; names unique within each file
    std::map<std::string, MetaValue, std::less<>> metadata;
  };

  /// Sorts the tensors, refuses a name that two files hold, and checks that no file changed while it was read.
  static Result<std::unique_ptr<Checkpoint>> build(ModelFolder folder, Contents contents);

  CheckpointKind kind() const override { return contents_.kind; }
  const std::string& path() const override { return contents_.path; }
  const std::vector<TensorEntry>& tensors() const override { return contents_.tensors; }
  const std::map<std::string, MetaValue, std::less<>>& metadata() const override { return contents_.metadata; }
  Result<std::string> read_side_file(std::string_view name, uint64_t max_bytes) const override {
    return folder_.read(name, max_bytes);
  }
  void release(const TensorEntry& tensor) override;
  Status check_unchanged() const override;

 private:
  MappedCheckpoint(ModelFolder folder, Contents contents)
      : folder_(std::move(folder)), contents_(std::move(contents)) {}

  ModelFolder folder_;
  Contents contents_;
};

/// The same error, led by the file that it is about.
Error in_file(const std::string& path, Error error);

}  // namespace slipstream
