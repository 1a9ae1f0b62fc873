// Where hub ids are looked for, by the documented layout and variables.
#include "engine/weights/hub_cache.h"

#include <cstdlib>
#include <map>

#include "engine/weights/checkpoint.h"
#include "tests/catch.h"
#include "tests/unit/weights/model_files.h"

using namespace slipstream;
using namespace slipstream::test;

namespace {

std::map<std::string, std::string> variables;

const char* variable(const char* name) {
  const auto found = variables.find(name);
  return found == variables.end() ? nullptr : found->second.c_str();
}

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("hub: the cache folder follows the documented variables in order") {
  variables = {};
  REQUIRE(hub_cache_folder(variable).empty());
  variables["HOME"] = "/home/u";
  REQUIRE(hub_cache_folder(variable) == "/home/u/.cache/huggingface/hub");
  variables["XDG_CACHE_HOME"] = "/xdg";
  REQUIRE(hub_cache_folder(variable) == "/xdg/huggingface/hub");
  variables["HF_HOME"] = "/hf";
  REQUIRE(hub_cache_folder(variable) == "/hf/hub");
  variables["HF_HUB_CACHE"] = "/cache";
  REQUIRE(hub_cache_folder(variable) == "/cache");
  variables["HF_HUB_CACHE"] = "";
  REQUIRE(hub_cache_folder(variable) == "/hf/hub");
}

TEST_CASE("hub: ids") {
  for (const char* id : {"org/name", "Qwen/Qwen3-0.6B", "a/b_c.d"}) REQUIRE(is_hub_id(id));
  for (const char* other : {"name", "/abs/path", "a/b/c", "../x", "a/..", "./a", "a/", "/a", "a b/c", "a/b\n", "a/-b",
                            "org/na:me"}) {
    REQUIRE_FALSE(is_hub_id(other));
  }
}

TEST_CASE("hub: a snapshot is found by refs/main, or when it is the only one") {
  TempFolder folder;
  const auto repository = folder / "models--org--name";
  REQUIRE(contains(find_in_hub_cache(folder.path(), "org/name").error().message, "hf download org/name"));
  std::filesystem::create_directories(repository / "snapshots");
  REQUIRE(contains(find_in_hub_cache(folder.path(), "org/name").error().message, "hf download org/name"));
  write_file(repository / "snapshots/aaa/config.json", "{}");
  REQUIRE(*find_in_hub_cache(folder.path(), "org/name") == (repository / "snapshots/aaa").string());
  write_file(repository / "snapshots/bbb/config.json", "{}");
  REQUIRE(contains(find_in_hub_cache(folder.path(), "org/name").error().message, "has 2 snapshots"));
  write_file(repository / "refs/main", "bbb\n");
  REQUIRE(*find_in_hub_cache(folder.path(), "org/name") == (repository / "snapshots/bbb").string());
  for (const char* bad : {"../../x", "", "gone", "a/b"}) {
    write_file(repository / "refs/main", bad);
    REQUIRE(find_in_hub_cache(folder.path(), "org/name").error().code == ErrorCode::kNotFound);
  }
}

TEST_CASE("resolve: a path wins, then the cache, then the download command") {
  TempFolder folder;
  REQUIRE(::setenv("HF_HUB_CACHE", folder.path().c_str(), 1) == 0);
  REQUIRE(*resolve_model_path(folder.path()) == folder.path());
  const auto absent = resolve_model_path("org/tiny");
  REQUIRE(absent.error().code == ErrorCode::kNotFound);
  REQUIRE(contains(absent.error().message, "hf download org/tiny"));
  write_file(folder / "models--org--tiny/snapshots/rev/model.safetensors", small_safetensors());
  const auto found = resolve_model_path("org/tiny");
  REQUIRE(found.ok());
  REQUIRE(Checkpoint::open(*found).ok());
  REQUIRE(resolve_model_path("").error().code == ErrorCode::kInvalidArgument);
  REQUIRE(contains(resolve_model_path("/no/such/model").error().message, "does not exist"));
  ::unsetenv("HF_HUB_CACHE");
}
