// The flag table: one row per setting, and the only source of names, aliases, bounds, help, environment names, YAML
// keys, the JSON schema and the table in docs/compatibility.md. Must never know where a value came from.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "config/config.h"

namespace slipstream::config {

/// Where a flag's value lives in Config; the alternative also fixes how its text is read.
using Field = std::variant<std::monostate, bool& (*)(Config&), int32_t& (*)(Config&), int64_t& (*)(Config&),
                           uint64_t& (*)(Config&), double& (*)(Config&), std::string& (*)(Config&),
                           std::vector<std::string>& (*)(Config&)>;

/// What we do about a flag.
enum class Treatment {
  kSet,       // sets `field`
  kObject,    // a map whose keys are flags of their own ("speculative-config" -> "speculative-config.method")
  kAction,    // the program's business (--print-config); load_config only accepts it
  kNoEffect,  // known from another engine, nothing to do here: one warning line
  kRefused,   // asks for something that is not served: an error that names the alternative
};

/// Whether a flag takes a value on the command line.
enum class Arity { kFlag, kValue };

using ValueMap = std::vector<std::pair<std::string_view, std::string_view>>;

/// Another engine's spelling of a setting.
struct Alias {
  std::string_view name;          // without dashes in front; with dashes inside
  bool negated = false;           // a bool that means the opposite
  std::string_view fixed = {};    // the alias takes no value and stands for this one
  ValueMap values = {};           // its own words for our values
  std::string_view warning = {};  // printed when used: where its meaning differs
};

struct Flag {
  std::string_view name;    // canonical: vLLM's spelling, with dashes
  Treatment treatment = Treatment::kSet;
  Field field = {};
  std::string_view group = {};   // heading in --help
  std::string_view metavar = {};  // "N", "FILE", …; empty for a switch
  std::string_view help = {};    // one sentence; for kNoEffect and kRefused: why, and the alternative
  Arity arity = Arity::kValue;
  double min = 0, max = 0;  // inclusive bounds of numbers; both 0: the type's own
  std::vector<std::string_view> choices = {};
  ValueMap values = {};     // accepted words -> our own
  /// Words that other engines take and that are refused here, with the reason and alternative.
  ValueMap refused_values = {};
  std::vector<Alias> aliases = {};
  bool secret = false;      // never printed
  bool text_is_json = false;  // a string field that holds a JSON object (YAML: a map)
};

/// All rows, in the order of --help.
const std::vector<Flag>& flags();

/// A name as a user wrote it, resolved.
struct FlagName {
  const Flag* flag = nullptr;    // null: unknown
  const Alias* alias = nullptr;  // null: the canonical name
  bool negated = false;          // "no-" in front, or a negated alias
};

/// `name` without leading dashes; underscores and dashes are the same.
FlagName find_flag(std::string_view name);

/// The known name with the smallest edit distance, or "" when none is near enough to be meant.
std::string nearest_flag(std::string_view name);

/// "max_num_seqs" -> "max-num-seqs". A dotted part keeps its own dashes: "speculative-config.num-speculative-tokens".
std::string normalised(std::string_view name);

/// SLIPSTREAM_MAX_NUM_SEQS of "max-num-seqs"; a dot becomes two underscores.
std::string env_name(std::string_view flag);

/// Edit distance with transpositions, for "did you mean".
int edit_distance(std::string_view a, std::string_view b);

bool is_switch(const Flag& flag);
bool is_list(const Flag& flag);

// The parts of the table, each in its own file.
std::vector<Flag> server_flags();
std::vector<Flag> engine_flags();
std::vector<Flag> speculative_flags();
std::vector<Flag> foreign_flags();

}  // namespace slipstream::config

/// A field of Config as a table entry: SLIP_FIELD(server.port).
#define SLIP_FIELD(path) ([](Config& c) -> auto& { return c.path; })
