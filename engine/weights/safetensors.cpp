#include "engine/weights/safetensors.h"

#include <set>
#include <string>

#include "engine/weights/mapped_checkpoint.h"
#include "engine/weights/safetensors_header.h"
#include "engine/weights/safetensors_index.h"

namespace slipstream {
namespace {

Status add_file(const ModelFolder& folder, std::string_view name, MappedCheckpoint::Contents* contents) {
  SLIP_TRY(auto file, folder.map(name));
  auto tensors = read_safetensors_header(file->bytes());
  if (!tensors.ok()) return in_file(file->path(), std::move(tensors).error());
  contents->tensors.insert(contents->tensors.end(), std::make_move_iterator(tensors->begin()),
                           std::make_move_iterator(tensors->end()));
  contents->files.push_back(std::move(file));
  return Ok{};
}

/// The tensors that the last shard added, from `first` on, against the index.
Status check_shard(const WeightMap& map, const std::string& shard, const std::vector<TensorEntry>& tensors,
                   size_t first) {
  for (size_t i = first; i < tensors.size(); ++i) {
    const auto found = map.find(tensors[i].name);
    if (found == map.end()) {
      return corrupt("tensor " + quote_name(tensors[i].name) + " of " + quote_name(shard) + " is not in weight_map");
    }
    if (found->second != shard) {
      return corrupt("tensor " + quote_name(tensors[i].name) + " is in " + quote_name(shard) + ", but weight_map says " +
                     quote_name(found->second));
    }
  }
  return Ok{};
}

Status add_shards(const ModelFolder& folder, MappedCheckpoint::Contents* contents) {
  const std::string index_path = folder.path() + "/" + std::string(kSafetensorsIndex);
  SLIP_TRY(const std::string json, folder.read(kSafetensorsIndex, kMaxSafetensorsHeaderBytes));
  auto map = read_safetensors_index(json);
  if (!map.ok()) return in_file(index_path, std::move(map).error());
  std::set<std::string> shards;
  for (const auto& [tensor, shard] : *map) shards.insert(shard);
  if (shards.size() > kMaxSafetensorsShards) {
    return corrupt("'" + index_path + "': " + std::to_string(shards.size()) + " shards are over the limit of " +
                   std::to_string(kMaxSafetensorsShards));
  }
  for (const std::string& shard : shards) {
    const size_t first = contents->tensors.size();
    SLIP_RETURN_IF_ERROR(add_file(folder, shard, contents));
    const Status checked = check_shard(*map, shard, contents->tensors, first);
    if (!checked.ok()) return in_file(index_path, checked.error());
  }
  // Names are unique within a shard and each shard holds only its own: equal counts leave nothing missing.
  if (contents->tensors.size() == map->size()) return Ok{};
  std::set<std::string_view> present;
  for (const TensorEntry& tensor : contents->tensors) present.insert(tensor.name);
  for (const auto& [tensor, shard] : *map) {
    if (present.count(tensor) == 0) {
      return corrupt("'" + index_path + "': tensor " + quote_name(tensor) + " is missing from " + quote_name(shard));
    }
  }
  return Ok{};
}

}  // namespace

Result<std::unique_ptr<Checkpoint>> open_safetensors(ModelFolder folder) {
  MappedCheckpoint::Contents contents;
  contents.kind = CheckpointKind::kSafetensors;
  contents.path = folder.path();
  if (folder.contains(kSafetensorsFile)) {
    SLIP_RETURN_IF_ERROR(add_file(folder, kSafetensorsFile, &contents));
  } else {
    SLIP_RETURN_IF_ERROR(add_shards(folder, &contents));
  }
  return MappedCheckpoint::build(std::move(folder), std::move(contents));
}

}  // namespace slipstream
