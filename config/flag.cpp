// Look-ups in the flag table: canonical names, aliases, "no-" forms and the nearest known name.
#include "config/flag.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <map>

namespace slipstream::config {
namespace {

std::map<std::string, FlagName, std::less<>> index_names() {
  std::map<std::string, FlagName, std::less<>> names;
  for (const Flag& flag : flags()) {
    names.emplace(flag.name, FlagName{&flag, nullptr, false});
    if (is_switch(flag)) names.emplace("no-" + std::string(flag.name), FlagName{&flag, nullptr, true});
    for (const Alias& alias : flag.aliases) {
      names.emplace(alias.name, FlagName{&flag, &alias, alias.negated});
      if (is_switch(flag)) {
        names.emplace("no-" + std::string(alias.name), FlagName{&flag, &alias, !alias.negated});
      }
    }
  }
  return names;
}

const std::map<std::string, FlagName, std::less<>>& names() {
  static const auto table = index_names();
  return table;
}

}  // namespace

const std::vector<Flag>& flags() {
  static const std::vector<Flag> table = [] {
    std::vector<Flag> all;
    for (auto part : {engine_flags(), server_flags(), speculative_flags(), foreign_flags()}) {
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }();
  return table;
}

bool is_switch(const Flag& flag) {
  if (flag.treatment == Treatment::kSet) return std::holds_alternative<bool& (*)(Config&)>(flag.field);
  return flag.arity == Arity::kFlag;
}

bool is_list(const Flag& flag) {
  return std::holds_alternative<std::vector<std::string>& (*)(Config&)>(flag.field);
}

std::string normalised(std::string_view name) {
  std::string out(name);
  std::replace(out.begin(), out.end(), '_', '-');
  return out;
}

FlagName find_flag(std::string_view name) {
  const auto it = names().find(normalised(name));
  return it == names().end() ? FlagName{} : it->second;
}

int edit_distance(std::string_view a, std::string_view b) {
  // Optimal string alignment (Damerau–Levenshtein without repeated edits of one substring), three rows.
  std::vector<int> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = static_cast<int>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = static_cast<int>(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const int change = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, change});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    before.swap(last);
    last.swap(row);
  }
  return last[b.size()];
}

std::string nearest_flag(std::string_view name) {
  const std::string wanted = normalised(name).substr(0, 64);
  int best = std::max<int>(2, static_cast<int>(wanted.size()) / 4) + 1;
  std::string found;
  for (const auto& [known, entry] : names()) {
    if (known.size() < 2) continue;
    const int longer = std::abs(static_cast<int>(known.size()) - static_cast<int>(wanted.size()));
    const bool begins = wanted.size() >= 4 && known.starts_with(wanted);
    if (longer > best && !begins) continue;  // the distance is at least that
    int distance = edit_distance(wanted, known);
    if (begins) distance = std::min(distance, 2);
    // A name that does something here wins over an equally near one that does not.
    const bool useful = entry.flag->treatment == Treatment::kSet || entry.flag->treatment == Treatment::kObject;
    if (distance < best || (distance == best && useful && !found.empty() &&
                            find_flag(found).flag->treatment != Treatment::kSet)) {
      best = distance;
      found = known;
    }
  }
  return found;
}

std::string env_name(std::string_view flag) {
  std::string out = "SLIPSTREAM_";
  for (char c : flag) {
    if (c == '.') {
      out += "__";
    } else {
      out += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    }
  }
  return out;
}

}  // namespace slipstream::config
