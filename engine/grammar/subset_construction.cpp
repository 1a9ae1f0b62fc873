// Nfa -> Automaton: states become sets of states. The sets are bounded, so an expression whose automaton would grow
// exponentially ends in an error.
#include <algorithm>
#include <unordered_map>

#include "engine/grammar/automaton.h"

namespace slipstream::grammar {

uint32_t Nfa::append(const Automaton& automaton, uint32_t from) {
  const uint32_t end = add_state();
  const uint32_t base = states_;
  states_ += static_cast<uint32_t>(automaton.states.size());
  for (uint32_t s = 0; s < automaton.states.size(); ++s) {
    for (const Edge* e = automaton.begin(s); e != automaton.end(s); ++e) add_edge(base + s, e->low, e->high, base + e->to);
    if (automaton.states[s].accepts) add_empty(base + s, end);
  }
  if (!automaton.states.empty()) add_empty(from, base);
  return end;
}

class SubsetConstruction {
 public:
  SubsetConstruction(const Nfa& nfa, CompileContext& context) : context_(context) {
    index(nfa);
    accepting_.resize(nfa.states_, false);
    for (const uint32_t s : nfa.accepting_) accepting_[s] = true;
    marks_.resize(nfa.states_, 0);
  }

  Automaton run() {
    Automaton out;
    begin_set();
    add(0);
    name();
    for (uint32_t at = 0; at < sets_.size(); ++at) {
      if (!context_.states(sets_.size())) return {};
      Automaton::State state;
      state.first_edge = static_cast<uint32_t>(out.edges.size());
      collect(at, &state.accepts);
      if (!context_.work(static_cast<int64_t>(found_.size()) + 4)) return {};
      sweep(&out);
      state.edges = static_cast<uint32_t>(out.edges.size()) - state.first_edge;
      out.states.push_back(state);
      if (context_.failed()) return {};
    }
    return trimmed(out);
  }

 private:
  struct Set {
    uint32_t first, count;
  };

  void index(const Nfa& nfa) {
    edge_at_.resize(nfa.states_ + 1, 0);
    empty_at_.resize(nfa.states_ + 1, 0);
    for (const auto& e : nfa.edges_) ++edge_at_[e.from + 1];
    for (const auto& e : nfa.empty_) ++empty_at_[e.first + 1];
    for (size_t s = 0; s < nfa.states_; ++s) edge_at_[s + 1] += edge_at_[s], empty_at_[s + 1] += empty_at_[s];
    edges_.resize(nfa.edges_.size());
    empty_.resize(nfa.empty_.size());
    std::vector<uint32_t> fill(edge_at_.begin(), edge_at_.end() - 1), fill_empty(empty_at_.begin(), empty_at_.end() - 1);
    for (const auto& e : nfa.edges_) edges_[fill[e.from]++] = e.edge;
    for (const auto& e : nfa.empty_) empty_[fill_empty[e.first]++] = e.second;
  }

  void begin_set() {
    ++mark_;
    set_.clear();
  }

  /// A state and what it reaches without a symbol. Only states with edges or that accept tell sets apart, so only those are
  /// kept in them.
  void add(uint32_t state) {
    if (marks_[state] == mark_) return;
    marks_[state] = mark_;
    open_.push_back(state);
    while (!open_.empty()) {
      const uint32_t s = open_.back();
      open_.pop_back();
      if (edge_at_[s] != edge_at_[s + 1] || accepting_[s]) set_.push_back(s);
      for (uint32_t i = empty_at_[s]; i < empty_at_[s + 1]; ++i)
        if (marks_[empty_[i]] != mark_) marks_[empty_[i]] = mark_, open_.push_back(empty_[i]);
    }
  }

  /// The number of the set being built; a new one if it is new.
  uint32_t name() {
    std::sort(set_.begin(), set_.end());
    uint64_t hash = 0x9E3779B97F4A7C15u;
    for (const uint32_t s : set_) hash = (hash ^ s) * 0xFF51AFD7ED558CCDu, hash ^= hash >> 29;
    auto& same = names_[hash];
    for (const uint32_t at : same)
      if (sets_[at].count == set_.size() && std::equal(set_.begin(), set_.end(), elements_.begin() + sets_[at].first))
        return at;
    if (elements_.size() + set_.size() > static_cast<size_t>(limits::kGrammarSubsetElements)) {
      context_.fail("the grammar's alternatives grow beyond " + std::to_string(limits::kGrammarSubsetElements) +
                    " automaton entries; use smaller repetition counts or make the alternatives differ earlier");
      return 0;
    }
    same.push_back(static_cast<uint32_t>(sets_.size()));
    sets_.push_back({static_cast<uint32_t>(elements_.size()), static_cast<uint32_t>(set_.size())});
    elements_.insert(elements_.end(), set_.begin(), set_.end());
    return same.back();
  }

  void collect(uint32_t at, bool* accepts) {
    found_.clear();
    for (uint32_t i = sets_[at].first; i < sets_[at].first + sets_[at].count; ++i) {
      const uint32_t s = elements_[i];
      *accepts = *accepts || accepting_[s];
      found_.insert(found_.end(), edges_.begin() + edge_at_[s], edges_.begin() + edge_at_[s + 1]);
    }
    std::sort(found_.begin(), found_.end(), [](const Edge& a, const Edge& b) { return a.low < b.low; });
  }

  /// Cuts the found edges where one begins or ends and makes one edge of each piece.
  void sweep(Automaton* out) {
    const size_t first = out->edges.size();
    active_.clear();
    size_t next = 0;
    uint64_t at = 0;
    while (next < found_.size() || !active_.empty()) {
      if (active_.empty()) at = found_[next].low;
      for (; next < found_.size() && found_[next].low == at; ++next) active_.push_back(found_[next]);
      uint64_t until = next < found_.size() ? found_[next].low : UINT64_MAX;
      for (const Edge& e : active_) until = std::min<uint64_t>(until, static_cast<uint64_t>(e.high) + 1);
      begin_set();
      for (const Edge& e : active_) add(e.to);
      if (!context_.work(static_cast<int64_t>(active_.size() + set_.size()))) return;
      const uint32_t to = name();
      const auto low = static_cast<Symbol>(at), high = static_cast<Symbol>(until - 1);
      if (out->edges.size() > first && out->edges.back().to == to && out->edges.back().high + 1 == low && high < 256)
        out->edges.back().high = high;
      else
        out->edges.push_back({low, high, to});
      at = until;
      std::erase_if(active_, [&](const Edge& e) { return e.high < at; });
    }
  }

  CompileContext& context_;
  std::vector<uint32_t> edge_at_, empty_at_, empty_;
  std::vector<Edge> edges_;
  std::vector<bool> accepting_;
  std::vector<Set> sets_;
  std::vector<uint32_t> elements_;
  std::unordered_map<uint64_t, std::vector<uint32_t>> names_;
  std::vector<uint32_t> marks_, set_, open_;
  uint32_t mark_ = 0;
  std::vector<Edge> found_, active_;
};

Automaton Nfa::deterministic(CompileContext& context) const {
  if (context.failed() || !context.states(states_)) return {};
  return SubsetConstruction(*this, context).run();
}

}  // namespace slipstream::grammar
