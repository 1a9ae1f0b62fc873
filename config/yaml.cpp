// yaml-cpp's event stream to a tree. Events rather than its own nodes, because those lose where a line was, merge
// duplicate keys and follow aliases.
#include "config/yaml.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <sstream>

#include "config/value.h"
#include "engine/base/log.h"

namespace slipstream::config {
namespace {

/// Leaves yaml-cpp's parser early; caught in parse_yaml.
struct Refusal {
  int line;
  std::string reason;
};

class TreeBuilder : public YAML::EventHandler {
 public:
  YamlNode take() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    add(mark, anchor, "", YamlNode::Kind::kNull);
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    throw Refusal{mark.line + 1, "aliases (*name) are not accepted; write the value out"};
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    YamlNode& node = add(mark, anchor, tag, YamlNode::Kind::kScalar);
    node.text = value;
    node.quoted = tag == "!";
    // A plain "key:" with nothing behind it, "~" and "null" are no value at all.
    if (!node.quoted && (value == "~" || value == "null" || value == "Null" || value == "NULL")) {
      node.kind = YamlNode::Kind::kNull;
    }
    close_key();
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(add(mark, anchor, tag, YamlNode::Kind::kList), mark);
  }
  void OnSequenceEnd() override { open_.pop_back(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(add(mark, anchor, tag, YamlNode::Kind::kMap), mark);
  }
  void OnMapEnd() override { open_.pop_back(); }

 private:
  struct Level {
    YamlNode* node;
    bool key_next = true;  // of a map
  };

  void open(YamlNode& node, const YAML::Mark& mark) {
    if (open_.size() >= static_cast<size_t>(kYamlDepth)) {
      throw Refusal{mark.line + 1, "nested deeper than 16 levels"};
    }
    open_.push_back({&node});
  }

  /// A new node in the innermost open list or map. The pointers in open_ stay valid: a vector of children grows only
  /// while none of its elements is open.
  YamlNode& add(const YAML::Mark& mark, YAML::anchor_t anchor, const std::string& tag, YamlNode::Kind kind) {
    const int line = mark.line + 1;
    if (anchor != 0) throw Refusal{line, "anchors (&name) are not accepted; write the value out"};
    if (!tag.empty() && tag != "?" && tag != "!") throw Refusal{line, "tags are not accepted: " + in_quotes(tag)};
    if (++nodes_ > kYamlNodes) throw Refusal{line, "more than 100000 values"};
    YamlNode* node = &root_;
    if (!open_.empty()) {
      Level& level = open_.back();
      if (level.node->kind == YamlNode::Kind::kList) {
        node = &level.node->items.emplace_back();
      } else if (level.key_next) {
        if (kind != YamlNode::Kind::kScalar) throw Refusal{line, "a key must be a plain name"};
        pending_key_ = true;
        key_ = YamlNode{};
        node = &key_;
      } else {
        node = &level.node->entries.back().value;
        level.key_next = true;
      }
    }
    node->kind = kind;
    node->line = line;
    return *node;
  }

  void close_key() {
    if (!pending_key_) return;
    pending_key_ = false;
    Level& level = open_.back();
    for (const YamlEntry& entry : level.node->entries) {
      if (entry.key == key_.text) {
        throw Refusal{key_.line, "key " + in_quotes(key_.text) + " was given on line " + std::to_string(entry.line)};
      }
    }
    level.node->entries.push_back({key_.text, key_.line, {}});
    level.key_next = false;
  }

  YamlNode root_;
  YamlNode key_;
  bool pending_key_ = false;
  std::vector<Level> open_;
  int nodes_ = 0;
};

bool is_json_number(const std::string& text) {
  double value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc{} || result.ptr != text.data() + text.size() || !std::isfinite(value)) return false;
  // from_chars takes "01", ".5" and "5.", which JSON does not.
  const size_t first = text[0] == '-' ? 1 : 0;
  if (first >= text.size() || text[first] < '0' || text[first] > '9' || text.back() == '.') return false;
  if (text[first] == '0' && first + 1 < text.size() && text[first + 1] >= '0' && text[first + 1] <= '9') return false;
  return text.find(".e") == std::string::npos && text.find(".E") == std::string::npos;
}

}  // namespace

Result<YamlNode> parse_yaml(std::string_view text, const std::string& name) {
  if (static_cast<int64_t>(text.size()) > kYamlBytes) {
    return invalid_argument(name + ": " + std::to_string(text.size()) + " bytes, over the limit of 1048576");
  }
  if (const size_t nul = text.find('\0'); nul != std::string_view::npos) {
    const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(nul), '\n');
    return invalid_argument(name + ":" + std::to_string(line) + ": a NUL byte; this is not a YAML file");
  }
  TreeBuilder tree;
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    parser.HandleNextDocument(tree);
    TreeBuilder rest;
    if (parser.HandleNextDocument(rest)) {
      return invalid_argument(name + ": holds more than one document; remove all after the second ---");
    }
  } catch (const Refusal& refusal) {
    return invalid_argument(name + ":" + std::to_string(refusal.line) + ": " + refusal.reason);
  } catch (const YAML::Exception& error) {
    return invalid_argument(name + ":" + std::to_string(error.mark.line + 1) + ": not valid YAML: " + error.msg);
  }
  YamlNode root = tree.take();
  if (root.kind == YamlNode::Kind::kNull) root.kind = YamlNode::Kind::kMap;
  return root;
}

std::string yaml_to_json(const YamlNode& node) {
  std::string out;
  switch (node.kind) {
    case YamlNode::Kind::kNull:
      return "null";
    case YamlNode::Kind::kScalar:
      if (!node.quoted) {
        if (node.text == "true" || node.text == "True" || node.text == "TRUE") return "true";
        if (node.text == "false" || node.text == "False" || node.text == "FALSE") return "false";
        if (is_json_number(node.text)) return node.text;
      }
      return log::json_quote(node.text);
    case YamlNode::Kind::kList:
      for (const YamlNode& item : node.items) out += (out.empty() ? "" : ",") + yaml_to_json(item);
      return "[" + out + "]";
    case YamlNode::Kind::kMap:
      for (const YamlEntry& entry : node.entries) {
        out += (out.empty() ? "" : ",") + log::json_quote(entry.key) + ":" + yaml_to_json(entry.value);
      }
      return "{" + out + "}";
  }
  return out;
}

}  // namespace slipstream::config
