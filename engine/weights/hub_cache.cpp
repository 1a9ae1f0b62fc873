#include "engine/weights/hub_cache.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <vector>

#include "engine/weights/checkpoint.h"
#include "engine/weights/model_folder.h"

namespace slipstream {
namespace {

namespace fs = std::filesystem;

bool is_plain(std::string_view text) {
  return !text.empty() && text.size() <= 96 && text.front() != '.' && text.front() != '-' &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' || c == '-' ||
                  c == '_';
         });
}

Error not_downloaded(const std::string& cache_folder, const std::string& hub_id) {
  const std::string where = cache_folder.empty() ? "the hub cache (HOME is not set)" : "'" + cache_folder + "'";
  return not_found("model '" + hub_id + "' is neither a path nor in " + where + "; download it with: hf download " +
                   hub_id);
}

/// refs/main holds a commit id; anything that could leave the snapshots folder is ignored.
std::string commit_of_main(const std::string& repository) {
  auto refs = ModelFolder::open(repository + "/refs");
  if (!refs.ok()) return {};
  auto text = refs->read("main", 256);
  if (!text.ok()) return {};
  const size_t end = text->find_last_not_of(" \t\r\n");
  std::string commit = end == std::string::npos ? std::string() : text->substr(0, end + 1);
  return is_plain(commit) ? commit : std::string();
}

}  // namespace

std::string hub_cache_folder(const char* (*environment)(const char* name)) {
  const auto get = [&](const char* name) -> std::string {
    const char* value = environment(name);
    return value != nullptr ? value : "";
  };
  if (std::string cache = get("HF_HUB_CACHE"); !cache.empty()) return cache;
  if (const std::string home = get("HF_HOME"); !home.empty()) return home + "/hub";
  if (const std::string cache = get("XDG_CACHE_HOME"); !cache.empty()) return cache + "/huggingface/hub";
  if (const std::string home = get("HOME"); !home.empty()) return home + "/.cache/huggingface/hub";
  return {};
}

bool is_hub_id(std::string_view text) {
  const size_t slash = text.find('/');
  return slash != std::string_view::npos && is_plain(text.substr(0, slash)) && is_plain(text.substr(slash + 1));
}

Result<std::string> find_in_hub_cache(const std::string& cache_folder, const std::string& hub_id) {
  const size_t slash = hub_id.find('/');
  const std::string repository =
      cache_folder + "/models--" + hub_id.substr(0, slash) + "--" + hub_id.substr(slash + 1);
  std::error_code error;
  if (cache_folder.empty() || !fs::is_directory(repository, error)) return not_downloaded(cache_folder, hub_id);

  const std::string snapshots = repository + "/snapshots";
  if (const std::string commit = commit_of_main(repository); !commit.empty()) {
    if (fs::is_directory(snapshots + "/" + commit, error)) return snapshots + "/" + commit;
  }
  std::vector<std::string> found;
  for (fs::directory_iterator entry(snapshots, error), end; !error && entry != end; entry.increment(error)) {
    std::error_code ignored;
    if (entry->is_directory(ignored)) found.push_back(entry->path().string());
  }
  if (found.size() == 1) return found[0];
  if (found.empty()) return not_downloaded(cache_folder, hub_id);
  return not_found("model '" + hub_id + "' has " + std::to_string(found.size()) + " snapshots in '" + snapshots +
                   "' and no refs/main; pass the path of one, or run: hf download " + hub_id);
}

Result<std::string> resolve_model_path(const std::string& model) {
  std::error_code error;
  if (model.empty()) return invalid_argument("the model is an empty string; pass a path or a hub id (org/name)");
  if (fs::exists(model, error)) return model;
  if (error) return io_error("cannot open '" + model + "': " + error.message());
  if (is_hub_id(model)) {
    const auto environment = [](const char* name) -> const char* { return std::getenv(name); };
    return find_in_hub_cache(hub_cache_folder(environment), model);
  }
  return not_found("model '" + model + "' does not exist; pass a folder, a .gguf file or a hub id (org/name)");
}

}  // namespace slipstream
