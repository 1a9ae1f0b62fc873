// A calibration's result as text and as JSON.
#include <cstdio>

#include <nlohmann/json.hpp>

#include "engine/spec/drafter_calibration.h"

namespace slipstream {
namespace {

template <typename... Values>
std::string line(const char* format, Values... values) {
  char text[256];
  std::snprintf(text, sizeof text, format, values...);
  return std::string(text) + "\n";
}

}  // namespace

std::string calibration_text(const Calibration& r, const DrafterFacts& facts) {
  std::string out = line("measured on %d tokens that the target wrote in %d texts, at %d anchors behind at most %d tokens; %d configs scored",
                         r.tokens, r.texts, r.anchors, r.longest_context, r.scores);
  for (const std::string& note : facts.notes) out += "note: " + note + "\n";
  for (const SettingTable& table : r.tables) {
    out += "\n" + table.key + (table.stated ? "" : "  (not stated)") + (table.decided ? "" : "  (values marked ~ are not clearly worse)") +
           (table.key == "block_size" ? table.decided ? "  (where the slots' shares collapse; lengths at full width)" : "  (the slots' shares collapse nowhere)" : "") + "\n";
    out += line("    %-28s %7s %7s %7s %8s", "value", "length", "slot 1", "loss", "behind");
    for (const SettingValue& value : table.values)
      out += line("  %c %-28.60s %7.2f %7.2f %7.3f %8.1f%s", value.chosen ? '*' : !table.decided && value.behind < 3 ? '~' : ' ', value.text.c_str(),
                  value.length, value.first_slot, value.loss, value.behind, value.stated ? "  as the config says" : "");
  }
  out += "\nlength: tokens a round over the first slots; loss: nats a token; behind: standard errors of the difference to the result (*)\n";
  out += "layer types: S slides, F full; causality: c sees no later row of its block, n sees all\n\n";
  std::string slots;
  for (const double share : r.slots) slots += (slots.empty() ? "" : " ") + line("%.2f", share).substr(0, 4);
  out += "drafts right, slot by slot: " + slots + "\n";
  for (const Calibration::Fault& fault : r.faults)
    out += "WRONG in the config: " + fault.key + " is " + fault.stated + ", measured " + fault.measured + "\n";
  return out + r.verdict + "\n";
}

std::string calibration_json(const Calibration& r, const DrafterFacts& facts) {
  using Json = nlohmann::ordered_json;
  Json tables = Json::array(), faults = Json::array();
  for (const SettingTable& table : r.tables) {
    Json values = Json::array();
    for (const SettingValue& v : table.values)
      values.push_back({{"value", v.text}, {"length", v.length}, {"first_slot", v.first_slot}, {"loss", v.loss}, {"behind", v.behind},
                        {"chosen", v.chosen}, {"stated", v.stated}});
    tables.push_back({{"key", table.key}, {"stated", table.stated}, {"decided", table.decided}, {"values", values}});
  }
  for (const Calibration::Fault& fault : r.faults)
    faults.push_back({{"key", fault.key}, {"stated", fault.stated}, {"measured", fault.measured}});
  return Json{{"fits", r.fits},
              {"verdict", r.verdict},
              {"acceptance_length", r.length},
              {"stated_acceptance_length", r.stated_length},
              {"slots", r.slots},
              {"faults", faults},
              {"not_stated", facts.unknown},
              {"notes", facts.notes},
              {"texts", r.texts},
              {"tokens", r.tokens},
              {"anchors", r.anchors},
              {"longest_context", r.longest_context},
              {"scores", r.scores},
              {"settings", tables}}
      .dump();
}

}  // namespace slipstream
