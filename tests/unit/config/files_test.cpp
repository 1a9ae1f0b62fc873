// The published files: the schema is what the program prints, the presets load, and each documents every key.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "config/flag_json.h"
#include "config/load.h"
#include "load_case.h"
#include "tests/catch.h"

using namespace slipstream;
using namespace slipstream::config;

namespace {
std::string read(const std::string& path) {
  std::ifstream file(path);
  REQUIRE(file.good());
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}
}  // namespace

TEST_CASE("the committed schema is the program's") {
  // Made again by: slipstream check-config --schema > config/slipstream.schema.json
  CHECK(read(std::string(SLIP_CONFIG_DIR) + "/slipstream.schema.json") == config_json_schema());
  const auto schema = nlohmann::json::parse(config_json_schema());
  CHECK(schema["properties"]["port"]["anyOf"][0]["maximum"] == 65535);
  CHECK(schema["properties"]["speculative-config"]["properties"].contains("method"));
  CHECK(schema["properties"]["max-model-len"]["default"] == 0);
}

TEST_CASE("the presets load without a warning and mention every setting") {
  int presets = 0;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(SLIP_CONFIG_DIR) + "/presets")) {
    if (entry.path().extension() != ".yaml") continue;
    ++presets;
    INFO(entry.path().string());
    const auto loaded = load_args({"--config", entry.path().string()});
    INFO(error_of(loaded));
    REQUIRE(loaded.ok());
    CHECK(loaded->warnings.empty());
    const std::string text = read(entry.path().string());
    const auto schema = nlohmann::json::parse(config_json_schema());  // named, since items() refers to it
    for (const auto& [name, property] : schema["properties"].items()) {
      INFO(name);
      CHECK((text.find("\n" + name + ":") != std::string::npos || text.find("\n#" + name + ":") != std::string::npos));
    }
  }
  CHECK(presets >= 3);
}

TEST_CASE("help and the flag table know the same flags") {
  const std::string help = serve_help();
  const auto table = nlohmann::json::parse(flag_table_json());
  int served = 0;
  for (const auto& row : table) {
    const std::string name = row["name"];
    const bool shown = help.find("--" + name + "\n") != std::string::npos || help.find("--" + name + " ") != std::string::npos;
    INFO(name);
    if (row["treatment"] == "served") {
      CHECK(shown);
      ++served;
    }
  }
  CHECK(served > 40);
}
