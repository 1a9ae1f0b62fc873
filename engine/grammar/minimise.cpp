// The smallest automaton of the same texts, by refining a partition of the states until it is stable.
#include <algorithm>
#include <map>

#include "engine/grammar/automaton.h"

namespace slipstream::grammar {

Automaton minimised(const Automaton& automaton, CompileContext& context) {
  const size_t count = automaton.states.size();
  if (count == 0) return automaton;
  std::vector<uint32_t> part(count);
  for (size_t s = 0; s < count; ++s) part[s] = automaton.states[s].accepts ? 1 : 0;
  // A state's signature: its part, then its edges with the parts they lead to, neighbours of one part joined.
  std::map<std::vector<uint32_t>, uint32_t> names;
  std::vector<std::vector<uint32_t>> signatures(count);
  for (size_t parts = 0; context.work(static_cast<int64_t>(count));) {
    names.clear();
    for (uint32_t s = 0; s < count; ++s) {
      std::vector<uint32_t>& signature = signatures[s];
      signature.assign(1, part[s]);
      for (const Edge* e = automaton.begin(s); e != automaton.end(s); ++e) {
        const size_t n = signature.size();
        if (n > 1 && e->high < 256 && signature[n - 1] == part[e->to] && signature[n - 2] + 1 == e->low)
          signature[n - 2] = e->high;
        else
          signature.insert(signature.end(), {e->low, e->high, part[e->to]});
      }
      names.try_emplace(signature, static_cast<uint32_t>(names.size()));
    }
    for (size_t s = 0; s < count; ++s) part[s] = names[signatures[s]];
    if (names.size() == parts) break;
    parts = names.size();
  }
  if (context.failed()) return {};

  Automaton out;
  std::vector<uint32_t> first(names.size(), kNoState);
  for (uint32_t s = 0; s < count; ++s)
    if (first[part[s]] == kNoState) first[part[s]] = s;
  // The start's part must become state 0; trimmed() orders the rest.
  std::vector<uint32_t> order(names.size());
  for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  std::swap(order[0], order[part[0]]);
  std::vector<uint32_t> place(order.size());
  for (uint32_t i = 0; i < order.size(); ++i) place[order[i]] = i;
  for (const uint32_t p : order) {
    Automaton::State state = automaton.states[first[p]];
    state.first_edge = static_cast<uint32_t>(out.edges.size());
    for (const Edge* e = automaton.begin(first[p]); e != automaton.end(first[p]); ++e) {
      const uint32_t to = place[part[e->to]];
      if (out.edges.size() > state.first_edge && out.edges.back().to == to && e->high < 256 &&
          out.edges.back().high + 1 == e->low)
        out.edges.back().high = e->high;
      else
        out.edges.push_back({e->low, e->high, to});
    }
    state.edges = static_cast<uint32_t>(out.edges.size()) - state.first_edge;
    out.states.push_back(state);
  }
  return trimmed(out);
}

}  // namespace slipstream::grammar
