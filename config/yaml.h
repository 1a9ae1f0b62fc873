// YAML text to a plain tree with line numbers. The only user of yaml-cpp; must never know what a key means.
//
// The file is an operator's, but a wrong one must fail in one line: at most 1 MiB, 16 levels and 100,000 nodes; no
// anchors, aliases, tags or second documents (they are how small files become large ones, or code).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/result.h"

namespace slipstream::config {

inline constexpr int64_t kYamlBytes = 1 << 20;
inline constexpr int kYamlDepth = 16;
inline constexpr int kYamlNodes = 100'000;

struct YamlNode;

struct YamlEntry;

struct YamlNode {
  enum class Kind { kNull, kScalar, kList, kMap };
  Kind kind = Kind::kNull;
  std::string text;     // kScalar
  bool quoted = false;  // kScalar: written between quotes or as a block, so it is text whatever it looks like
  int line = 0;         // from 1
  std::vector<YamlNode> items;     // kList
  std::vector<YamlEntry> entries;  // kMap, in order; keys are distinct
};

struct YamlEntry {
  std::string key;
  int line = 0;
  YamlNode value;
};

/// `name` starts each error message: "config.yaml:12: ...". An empty file is an empty map.
Result<YamlNode> parse_yaml(std::string_view text, const std::string& name);

/// JSON text of a tree: plain true, false, null and numbers keep their type, all else is a string.
std::string yaml_to_json(const YamlNode& node);

}  // namespace slipstream::config
