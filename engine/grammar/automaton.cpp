// What deterministic automata do: matching, trimming, products.
#include "engine/grammar/automaton.h"

#include <algorithm>
#include <unordered_map>

namespace slipstream::grammar {

uint32_t Automaton::next(uint32_t state, Symbol symbol) const {
  const Edge* found = std::lower_bound(begin(state), end(state), symbol, [](const Edge& e, Symbol s) { return e.high < s; });
  return found != end(state) && found->low <= symbol ? found->to : kNoState;
}

bool Automaton::matches(std::string_view text) const {
  if (matches_nothing()) return false;
  uint32_t state = 0;
  for (const char c : text) {
    state = next(state, static_cast<uint8_t>(c));
    if (state == kNoState) return false;
  }
  return states[state].accepts;
}

namespace {

/// States that reach an accepting one.
std::vector<bool> living(const Automaton& automaton) {
  const size_t count = automaton.states.size();
  std::vector<uint32_t> offsets(count + 1, 0), sources(automaton.edges.size());
  for (const Edge& e : automaton.edges) ++offsets[e.to + 1];
  for (size_t i = 0; i < count; ++i) offsets[i + 1] += offsets[i];
  std::vector<uint32_t> fill(offsets.begin(), offsets.end() - 1);
  for (uint32_t s = 0; s < count; ++s)
    for (const Edge* e = automaton.begin(s); e != automaton.end(s); ++e) sources[fill[e->to]++] = s;

  std::vector<bool> lives(count, false);
  std::vector<uint32_t> open;
  for (uint32_t s = 0; s < count; ++s)
    if (automaton.states[s].accepts) lives[s] = true, open.push_back(s);
  while (!open.empty()) {
    const uint32_t state = open.back();
    open.pop_back();
    for (uint32_t i = offsets[state]; i < offsets[state + 1]; ++i)
      if (!lives[sources[i]]) lives[sources[i]] = true, open.push_back(sources[i]);
  }
  return lives;
}

}  // namespace

Automaton trimmed(const Automaton& automaton) {
  Automaton out;
  if (automaton.states.empty()) return out;
  const std::vector<bool> lives = living(automaton);
  if (!lives[0]) return out;
  std::vector<uint32_t> renamed(automaton.states.size(), kNoState);
  std::vector<uint32_t> order{0};
  renamed[0] = 0;
  for (size_t at = 0; at < order.size(); ++at) {
    Automaton::State state;
    state.first_edge = static_cast<uint32_t>(out.edges.size());
    state.accepts = automaton.states[order[at]].accepts;
    for (const Edge* e = automaton.begin(order[at]); e != automaton.end(order[at]); ++e) {
      if (!lives[e->to]) continue;
      if (renamed[e->to] == kNoState) renamed[e->to] = static_cast<uint32_t>(order.size()), order.push_back(e->to);
      out.edges.push_back({e->low, e->high, renamed[e->to]});
    }
    state.edges = static_cast<uint32_t>(out.edges.size()) - state.first_edge;
    out.states.push_back(state);
  }
  return out;
}

namespace {

/// Pairs of states of a and b, breadth first. With `subtract` b may be in no state.
class Product {
 public:
  Product(const Automaton& a, const Automaton& b, bool subtract, CompileContext& context)
      : a_(a), b_(b), subtract_(subtract), context_(context) {}

  Automaton run() {
    Automaton out;
    if (a_.matches_nothing() || (b_.matches_nothing() && !subtract_)) return out;
    name(0, b_.matches_nothing() ? kNoState : 0);
    for (size_t at = 0; at < pairs_.size(); ++at) {
      if (!context_.work(4) || !context_.states(pairs_.size())) return {};
      const auto [in_a, in_b] = pairs_[at];
      Automaton::State state;
      state.first_edge = static_cast<uint32_t>(out.edges.size());
      const bool b_accepts = in_b != kNoState && b_.states[in_b].accepts;
      state.accepts = a_.states[in_a].accepts && b_accepts != subtract_;
      for (const Edge* e = a_.begin(in_a); e != a_.end(in_a); ++e) meet(*e, in_b, &out.edges);
      state.edges = static_cast<uint32_t>(out.edges.size()) - state.first_edge;
      out.states.push_back(state);
    }
    return trimmed(out);
  }

 private:
  uint32_t name(uint32_t in_a, uint32_t in_b) {
    const uint64_t key = (static_cast<uint64_t>(in_a) << 32) | in_b;
    const auto [at, added] = names_.try_emplace(key, static_cast<uint32_t>(pairs_.size()));
    if (added) pairs_.push_back({in_a, in_b});
    return at->second;
  }

  /// The edge of a, cut at the edges of b.
  void meet(const Edge& edge, uint32_t in_b, std::vector<Edge>* out) {
    Symbol from = edge.low;
    if (in_b != kNoState)
      for (const Edge* e = b_.begin(in_b); e != b_.end(in_b); ++e) {
        if (e->high < from || e->low > edge.high) continue;
        if (e->low > from && subtract_) out->push_back({from, e->low - 1, name(edge.to, kNoState)});
        const Symbol low = std::max(e->low, from), high = std::min(e->high, edge.high);
        out->push_back({low, high, name(edge.to, e->to)});
        if (high == edge.high) return;
        from = high + 1;
      }
    if (subtract_) out->push_back({from, edge.high, name(edge.to, kNoState)});
  }

  const Automaton& a_;
  const Automaton& b_;
  const bool subtract_;
  CompileContext& context_;
  std::vector<std::pair<uint32_t, uint32_t>> pairs_;
  std::unordered_map<uint64_t, uint32_t> names_;
};

}  // namespace

Automaton intersection(const Automaton& a, const Automaton& b, CompileContext& context) {
  return Product(a, b, false, context).run();
}

Automaton difference(const Automaton& a, const Automaton& b, CompileContext& context) {
  return Product(a, b, true, context).run();
}

}  // namespace slipstream::grammar
