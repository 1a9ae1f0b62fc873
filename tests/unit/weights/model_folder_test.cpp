// Which files of a model's folder may be opened: links, pipes, names with slashes, hub cache layout.
#include "engine/weights/model_folder.h"

#include <filesystem>

#include <sys/stat.h>

#include "engine/weights/checkpoint.h"
#include "tests/catch.h"
#include "tests/unit/weights/model_files.h"

using namespace slipstream;
using namespace slipstream::test;
namespace fs = std::filesystem;

namespace {

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("folder: links inside are followed, links that leave are refused") {
  TempFolder folder;
  write_file(folder / "model/weights.bin", "inside");
  write_file(folder / "secret.json", "outside");
  fs::create_symlink("weights.bin", folder / "model/near.json");
  fs::create_symlink("../secret.json", folder / "model/far.json");
  fs::create_symlink(folder / "secret.json", folder / "model/absolute.json");
  fs::create_symlink("loop_b", folder / "model/loop_a");
  fs::create_symlink("loop_a", folder / "model/loop_b");
  fs::create_symlink("nowhere", folder / "model/dangling");
  fs::create_directory(folder / "model/sub");
  fs::create_directory(folder / "model-evil");
  write_file(folder / "model-evil/x", "prefix");
  fs::create_symlink("../model-evil/x", folder / "model/prefix");
  REQUIRE(::mkfifo((folder / "model/pipe").c_str(), 0600) == 0);
  fs::create_symlink("model", folder / "alias");

  for (const char* name : {"model", "alias"}) {
    auto opened = ModelFolder::open((folder / name).string());
    REQUIRE(opened.ok());
    REQUIRE(*opened->read("near.json", 100) == "inside");
    REQUIRE((*opened->map("near.json"))->bytes().size() == 6);
    for (const char* far : {"far.json", "absolute.json", "prefix"}) {
      const auto refused = opened->read(far, 100);
      REQUIRE(refused.error().code == ErrorCode::kIo);
      REQUIRE(contains(refused.error().message, "is a link out of the model folder"));
      REQUIRE_FALSE(opened->map(far).ok());
    }
    REQUIRE(opened->read("loop_a", 100).error().code == ErrorCode::kIo);
    REQUIRE_FALSE(opened->map("loop_b").ok());
    REQUIRE(opened->read("dangling", 100).error().code == ErrorCode::kNotFound);
    REQUIRE(contains(opened->read("pipe", 100).error().message, "not a regular file"));
    REQUIRE(contains(opened->map("pipe").error().message, "not a regular file"));
    REQUIRE(contains(opened->map("sub").error().message, "not a regular file"));
    REQUIRE_FALSE(opened->read("sub", 100).ok());
    for (const char* bad : {"", ".", "..", "../secret.json", "sub/x", "/etc/hostname"}) {
      REQUIRE(contains(opened->read(bad, 100).error().message, "is not a plain file name"));
    }
    REQUIRE(opened->read(std::string_view("a\0b", 3), 100).error().code == ErrorCode::kCorrupt);
    REQUIRE(opened->read(std::string(300, 'n'), 100).error().code == ErrorCode::kCorrupt);
  }
  REQUIRE(ModelFolder::open((folder / "gone").string()).error().code == ErrorCode::kNotFound);
}

TEST_CASE("folder: a hub snapshot may link into its own blobs and nowhere else") {
  TempFolder folder;
  const fs::path repository = folder / "hub/models--org--tiny";
  write_file(repository / "blobs/abc", small_safetensors());
  write_file(repository / "blobs/def", "{\"k\":1}");
  write_file(folder / "hub/models--org--other/blobs/abc", "other");
  fs::create_directories(repository / "snapshots/rev1");
  fs::create_symlink("../../blobs/abc", repository / "snapshots/rev1/model.safetensors");
  fs::create_symlink("../../blobs/def", repository / "snapshots/rev1/config.json");
  fs::create_symlink("../../../models--org--other/blobs/abc", repository / "snapshots/rev1/tokenizer.json");
  auto checkpoint = Checkpoint::open((repository / "snapshots/rev1").string());
  REQUIRE(checkpoint.ok());
  REQUIRE((*checkpoint)->tensors().size() == 3);
  REQUIRE(*(*checkpoint)->read_side_file("config.json", 100) == "{\"k\":1}");
  REQUIRE(contains((*checkpoint)->read_side_file("tokenizer.json", 100).error().message, "link out of the model folder"));
}

TEST_CASE("quote_name keeps messages on one line") {
  REQUIRE(quote_name("plain.weight") == "\"plain.weight\"");
  REQUIRE_FALSE(contains(quote_name("a\nb\x1b[31m"), "\n"));
  REQUIRE_FALSE(contains(quote_name("a\nb\x1b[31m"), "\x1b"));
  REQUIRE(quote_name(std::string(1000, 'x')).size() < 120);
}
