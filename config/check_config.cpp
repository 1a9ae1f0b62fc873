// `slipstream check-config`.
#include "config/check_config.h"

#include <algorithm>
#include <cstdio>

#include "config/flag_json.h"
#include "config/load.h"
#include "config/sources.h"

namespace slipstream {
namespace {

constexpr int kGood = 0, kBad = 2;

constexpr const char* kUsage =
    "usage: slipstream check-config FILE [flags of serve] [--print-config [--json]]\n"
    "       slipstream check-config --schema | --flags\n\n"
    "Reads FILE, the environment and the flags as `slipstream serve --config FILE` would, and says what is wrong.\n"
    "No model is loaded and no port is opened. Exit status: 0 good, 2 not.\n";

bool has(const std::vector<std::string>& args, const char* word) {
  return std::find(args.begin(), args.end(), word) != args.end();
}

void print(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }

/// A bare first word is the file here, not MODEL.
std::vector<std::string> with_config_flag(std::vector<std::string> args) {
  if (!args.empty() && !args[0].empty() && args[0][0] != '-') args.insert(args.begin(), "--config");
  return args;
}

}  // namespace

int run_check_config(const std::vector<std::string>& args) {
  if (has(args, "--help") || has(args, "-h")) {
    print(kUsage);
    return kGood;
  }
  if (has(args, "--schema")) {
    print(config_json_schema());
    return kGood;
  }
  if (has(args, "--flags")) {
    print(config::flag_table_json());
    return kGood;
  }
  if (args.empty()) {
    std::fputs(kUsage, stderr);
    return kBad;
  }
  const auto loaded = config::load(with_config_flag(args), config::process_environment(), config::Need::kNothing);
  if (!loaded) {
    std::fprintf(stderr, "error: %s\n", loaded.error().message.c_str());
    return kBad;
  }
  const bool json = has(args, "--json");
  if (has(args, "--print-config")) {
    print(describe_config(*loaded, json));
  } else {
    for (const std::string& warning : loaded->warnings) std::fprintf(stderr, "warning: %s\n", warning.c_str());
    const auto set = std::count_if(loaded->source.begin(), loaded->source.end(),
                                   [](const auto& entry) { return entry.second != "default"; });
    std::printf("good: %d settings given, %zu warnings%s\n", static_cast<int>(set), loaded->warnings.size(),
                loaded->engine.model.empty() ? "; MODEL is left to the command line" : "");
  }
  return kGood;
}

}  // namespace slipstream
