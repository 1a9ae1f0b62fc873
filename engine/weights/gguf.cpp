#include "engine/weights/gguf.h"

#include <cstdio>
#include <optional>

#include "engine/weights/gguf_header.h"
#include "engine/weights/mapped_checkpoint.h"

namespace slipstream {
namespace {

struct SplitName {
  std::string base;    // "model" of model-00001-of-00003.gguf
  uint64_t index = 0;  // from 1
  uint64_t count = 0;
};

std::optional<uint64_t> five_digits(std::string_view text) {
  uint64_t value = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + static_cast<uint64_t>(c - '0');
  }
  return value;
}

std::optional<SplitName> parse_split_name(std::string_view file) {
  constexpr std::string_view kTail = "-00001-of-00001.gguf";
  if (file.size() <= kTail.size()) return std::nullopt;
  const std::string_view tail = file.substr(file.size() - kTail.size());
  if (tail[0] != '-' || tail.substr(6, 4) != "-of-" || tail.substr(15) != ".gguf") return std::nullopt;
  const auto index = five_digits(tail.substr(1, 5));
  const auto count = five_digits(tail.substr(10, 5));
  if (!index || !count) return std::nullopt;
  return SplitName{std::string(file.substr(0, file.size() - kTail.size())), *index, *count};
}

std::string split_file_name(const SplitName& name, uint64_t index) {
  char tail[32];
  std::snprintf(tail, sizeof tail, "-%05u-of-%05u.gguf", static_cast<unsigned>(index),
                static_cast<unsigned>(name.count));
  return name.base + tail;
}

/// A non-negative integer key; 0 when absent.
Result<uint64_t> integer_key(const Metadata& metadata, std::string_view key) {
  const auto found = metadata.find(key);
  if (found == metadata.end()) return uint64_t{0};
  if (const auto* value = std::get_if<uint64_t>(&found->second)) return *value;
  if (const auto* value = std::get_if<int64_t>(&found->second); value != nullptr && *value >= 0) {
    return static_cast<uint64_t>(*value);
  }
  return corrupt(std::string(key) + " is not a non-negative integer");
}

Status check_split_keys(const Metadata& metadata, uint64_t index, uint64_t count) {
  SLIP_TRY(const uint64_t number, integer_key(metadata, "split.no"));
  SLIP_TRY(const uint64_t stated, integer_key(metadata, "split.count"));
  if (stated != count) {
    return corrupt("split.count is " + std::to_string(stated) + ", but the file's name says " + std::to_string(count));
  }
  if (number != index - 1) {
    return corrupt("split.no is " + std::to_string(number) + ", but the file's name says split " +
                   std::to_string(index) + ", which is number " + std::to_string(index - 1));
  }
  return Ok{};
}

void append(std::vector<TensorEntry>* all, std::vector<TensorEntry> more) {
  all->insert(all->end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

/// Adds splits 2..count to `contents`.
Status add_splits(const ModelFolder& folder, const SplitName& name, MappedCheckpoint::Contents* contents) {
  for (uint64_t index = 2; index <= name.count; ++index) {
    const std::string file_name = split_file_name(name, index);
    auto file = folder.map(file_name);
    if (!file.ok()) {
      Error error = std::move(file).error();
      error.message += "; it is split " + std::to_string(index) + " of " + std::to_string(name.count) +
                       " of this model, download all of them into one folder";
      return error;
    }
    auto header = read_gguf_header((*file)->bytes());
    if (!header.ok()) return in_file((*file)->path(), std::move(header).error());
    const Status keys = check_split_keys(header->metadata, index, name.count);
    if (!keys.ok()) return in_file((*file)->path(), keys.error());
    append(&contents->tensors, std::move(header->tensors));
    contents->files.push_back(std::move(*file));
  }
  return Ok{};
}

}  // namespace

Result<std::unique_ptr<Checkpoint>> open_gguf(const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string folder_path = slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
  const std::string file_name = slash == std::string::npos ? path : path.substr(slash + 1);
  SLIP_TRY(ModelFolder folder, ModelFolder::open(folder_path));

  const auto split = parse_split_name(file_name);
  if (split && (split->count == 0 || split->count > kMaxGgufSplits || split->index == 0 ||
                split->index > split->count)) {
    return invalid_argument("'" + path + "': a model has 1 to " + std::to_string(kMaxGgufSplits) +
                            " splits, numbered from 00001");
  }
  if (split && split->index != 1) {
    return invalid_argument("'" + path + "' is split " + std::to_string(split->index) +
                            " of a model; pass the first one, '" + split_file_name(*split, 1) + "'");
  }

  // The operator named this file, so a link is followed wherever it leads; the splits are found by us.
  MappedCheckpoint::Contents contents;
  SLIP_TRY(auto first, MappedFile::open(path));
  auto header = read_gguf_header(first->bytes());
  if (!header.ok()) return in_file(path, std::move(header).error());
  SLIP_TRY(const uint64_t stated_count, integer_key(header->metadata, "split.count"));
  if (split) {
    const Status keys = check_split_keys(header->metadata, 1, split->count);
    if (!keys.ok()) return in_file(path, keys.error());
  } else if (stated_count > 1) {
    return corrupt("'" + path + "' is one of " + std::to_string(stated_count) +
                   " splits, but is not named like one; it must be called NAME-00001-of-000NN.gguf");
  }
  contents.path = path;
  contents.metadata = std::move(header->metadata);
  contents.tensors = std::move(header->tensors);
  contents.files.push_back(std::move(first));

  if (split) SLIP_RETURN_IF_ERROR(add_splits(folder, *split, &contents));
  SLIP_TRY(const uint64_t stated_tensors, integer_key(contents.metadata, "split.tensors.count"));
  if (split && stated_tensors != contents.tensors.size()) {
    return corrupt("'" + path + "': split.tensors.count is " + std::to_string(stated_tensors) + ", but the splits hold " +
                   std::to_string(contents.tensors.size()) + " tensors");
  }
  return MappedCheckpoint::build(std::move(folder), std::move(contents));
}

}  // namespace slipstream
