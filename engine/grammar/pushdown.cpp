// Joins the automata of the rules.
#include "engine/grammar/pushdown.h"

#include <algorithm>
#include <unordered_map>

namespace slipstream::grammar {

namespace {

bool is_call(const Edge& e) { return e.low >= kRuleSymbols && e.low < kTextBegin; }
uint32_t rule_of(const Edge& e) { return e.low - kRuleSymbols; }

class PushdownBuilder {
 public:
  explicit PushdownBuilder(Expressions& e) : e_(e), context_(e.context()) {}

  std::shared_ptr<Pushdown> run(Expr root) {
    const uint32_t root_rule = e_.add_rule("the grammar", true);
    e_.define(root_rule, root);
    e_.finish_rules();
    build_reachable(root_rule);
    if (!context_.failed()) drop_endless();
    if (!context_.failed() && automata_[root_rule].matches_nothing()) context_.fail("the grammar matches no text");
    if (!context_.failed()) refuse_left_recursion();
    if (context_.failed()) return nullptr;
    return joined(root_rule);
  }

 private:
  void build_reachable(uint32_t root) {
    automata_.resize(e_.rules());
    std::vector<bool> reached(e_.rules(), false);
    order_ = {root};
    reached[root] = true;
    size_t states = 0;
    for (size_t at = 0; at < order_.size() && !context_.failed(); ++at) {
      Automaton& automaton = automata_[order_[at]];
      automaton = e_.build_rule(order_[at]);
      context_.states(states += automaton.states.size());
      for (const Edge& edge : automaton.edges)
        if (is_call(edge) && !reached[rule_of(edge)]) reached[rule_of(edge)] = true, order_.push_back(rule_of(edge));
    }
  }

  /// A rule that ends only behind itself has no text: its calls lead nowhere.
  void drop_endless() {
    std::vector<bool> ends(automata_.size(), false);
    for (bool changed = true; changed && !context_.failed();) {
      changed = false;
      for (const uint32_t rule : order_)
        if (!ends[rule] && can_end(automata_[rule], ends)) ends[rule] = changed = true;
    }
    for (const uint32_t rule : order_) {
      Automaton& automaton = automata_[rule];
      const auto endless = [&](const Edge& e) { return is_call(e) && !ends[rule_of(e)]; };
      if (std::none_of(automaton.edges.begin(), automaton.edges.end(), endless)) continue;
      Automaton kept;
      for (uint32_t s = 0; s < automaton.states.size(); ++s) {
        Automaton::State state{static_cast<uint32_t>(kept.edges.size()), 0, automaton.states[s].accepts};
        std::copy_if(automaton.begin(s), automaton.end(s), std::back_inserter(kept.edges), [&](const Edge& e) { return !endless(e); });
        state.edges = static_cast<uint32_t>(kept.edges.size()) - state.first_edge;
        kept.states.push_back(state);
      }
      automaton = trimmed(kept);
    }
  }

  bool can_end(const Automaton& automaton, const std::vector<bool>& ends) {
    if (automaton.matches_nothing()) return false;
    std::vector<bool> seen(automaton.states.size(), false);
    std::vector<uint32_t> open{0};
    seen[0] = true;
    while (!open.empty() && context_.work(2)) {
      const uint32_t s = open.back();
      open.pop_back();
      if (automaton.states[s].accepts) return true;
      for (const Edge* e = automaton.begin(s); e != automaton.end(s); ++e)
        if (!seen[e->to] && (!is_call(*e) || ends[rule_of(*e)])) seen[e->to] = true, open.push_back(e->to);
    }
    return false;
  }

  /// Calls at the starts of rules must not lead back. (Behind a rule that may be empty the start goes on: Expressions
  /// writes those ways out.)
  void refuse_left_recursion() {
    enum : uint8_t { kNew, kOpen, kDone };
    std::vector<uint8_t> seen(automata_.size(), kNew);
    for (const uint32_t first : order_) {
      std::vector<std::pair<uint32_t, uint32_t>> path;  // rule, how many edges of its start are done
      if (seen[first] == kNew) path.push_back({first, 0}), seen[first] = kOpen;
      while (!path.empty() && context_.work(1)) {
        auto& [rule, at] = path.back();
        const Automaton& automaton = automata_[rule];
        if (automaton.matches_nothing() || at == automaton.states[0].edges) {
          seen[rule] = kDone;
          path.pop_back();
          continue;
        }
        const Edge& edge = automaton.begin(0)[at++];
        if (!is_call(edge)) continue;
        const uint32_t called = rule_of(edge);
        if (seen[called] == kOpen)
          return context_.fail("rule " + e_.rule_name(called) +
                               " calls itself before it has read anything (left recursion); write it as a repetition");
        if (seen[called] == kNew) seen[called] = kOpen, path.push_back({called, 0});
      }
    }
  }

  std::shared_ptr<Pushdown> joined(uint32_t root) {
    auto out = std::make_shared<Pushdown>();
    std::vector<uint32_t> base(automata_.size(), 0);
    uint32_t count = 0;
    for (const uint32_t rule : order_) base[rule] = count, count += static_cast<uint32_t>(automata_[rule].states.size());
    for (const uint32_t rule : order_)
      for (uint32_t s = 0; s < automata_[rule].states.size(); ++s) add_state(automata_[rule], s, base, base[rule], out.get());
    out->states.push_back({static_cast<uint32_t>(out->edges.size()), static_cast<uint32_t>(out->calls.size()),
                           static_cast<uint32_t>(out->tokens.size()), false, true});
    out->root = base[root];
    for (Pushdown::Call& call : out->calls) {
      const Pushdown::State &to = out->states[call.to], &behind = out->states[call.to + 1];
      call.last = to.accepts && to.first_edge == behind.first_edge && to.first_call == behind.first_call &&
                  to.first_token == behind.first_token;
    }
    return out;
  }

  void add_state(const Automaton& automaton, uint32_t s, const std::vector<uint32_t>& base, uint32_t own, Pushdown* out) {
    Pushdown::State state{static_cast<uint32_t>(out->edges.size()), static_cast<uint32_t>(out->calls.size()),
                          static_cast<uint32_t>(out->tokens.size()), automaton.states[s].accepts, false};
    for (const Edge* e = automaton.begin(s); e != automaton.end(s); ++e) {
      if (e->low < 256) out->edges.push_back({own + e->to, static_cast<uint8_t>(e->low), static_cast<uint8_t>(e->high)});
      else if (is_call(*e)) out->calls.push_back({base[rule_of(*e)], own + e->to, false});
      else out->tokens.push_back({static_cast<int32_t>(e->low - kTokenSymbols), own + e->to});
    }
    state.plain = !state.accepts && state.first_call == out->calls.size();
    out->states.push_back(state);
  }

  Expressions& e_;
  CompileContext& context_;
  std::vector<Automaton> automata_;
  std::vector<uint32_t> order_;
};

}  // namespace

int64_t Pushdown::bytes() const {
  return static_cast<int64_t>(states.size() * sizeof(State) + edges.size() * sizeof(ByteEdge) + calls.size() * sizeof(Call) +
                              tokens.size() * sizeof(TokenEdge) + classes.size() * sizeof(uint32_t));
}

std::shared_ptr<Pushdown> make_pushdown(Expr root, Expressions& expressions) {
  return PushdownBuilder(expressions).run(root);
}

namespace {

/// States with the same edges to the same classes.
class Refinement {
 public:
  explicit Refinement(const Pushdown& p) : p_(p), classes_(p.state_count(), 0), next_(p.state_count()) {}

  size_t round() {
    firsts_.clear();
    firsts_.reserve(p_.state_count());
    uint32_t named = 0;
    for (uint32_t s = 0; s < p_.state_count(); ++s) {
      // Two different signatures with one hash: the second gets a class of its own, which only shares less.
      const auto [at, added] = firsts_.try_emplace(hash(s), s);
      next_[s] = !added && equal(at->second, s) ? next_[at->second] : named++;
    }
    classes_.swap(next_);
    return named;
  }
  std::vector<uint32_t> take() { return std::move(classes_); }

 private:
  template <typename Visit>
  void signature(uint32_t s, Visit visit) const {
    const Pushdown::State &from = p_.states[s], &to = p_.states[s + 1];
    visit((classes_[s] << 1) | (from.accepts ? 1u : 0u));
    for (uint32_t i = from.first_edge; i < to.first_edge; ++i)
      visit(static_cast<uint32_t>(p_.edges[i].low << 8 | p_.edges[i].high)), visit(classes_[p_.edges[i].to]);
    for (uint32_t i = from.first_call; i < to.first_call; ++i)
      visit(p_.calls[i].start | 0x8000'0000u), visit(classes_[p_.calls[i].to]);
    for (uint32_t i = from.first_token; i < to.first_token; ++i)
      visit(static_cast<uint32_t>(p_.tokens[i].token) | 0x4000'0000u), visit(classes_[p_.tokens[i].to]);
  }
  uint64_t hash(uint32_t s) const {
    uint64_t h = 0x9E3779B97F4A7C15u;
    signature(s, [&](uint32_t v) { h = (h ^ v) * 0xFF51AFD7ED558CCDu, h ^= h >> 31; });
    return h;
  }
  bool equal(uint32_t a, uint32_t b) const {
    std::vector<uint32_t>&left = left_, &right = right_;
    left.clear(), right.clear();
    signature(a, [&](uint32_t v) { left.push_back(v); });
    signature(b, [&](uint32_t v) { right.push_back(v); });
    return left == right;
  }

  const Pushdown& p_;
  std::vector<uint32_t> classes_, next_;
  std::unordered_map<uint64_t, uint32_t> firsts_;
  mutable std::vector<uint32_t> left_, right_;
};

constexpr size_t kSharedFrom = 512;  // smaller grammars have few masks anyway
constexpr uint32_t kHorizon = 32;     // bytes; longer tokens are left out of the masks of such grammars

}  // namespace

void share_classes(Pushdown* pushdown, CompileContext& context) {
  if (pushdown->state_count() < kSharedFrom) return;
  Refinement refinement(*pushdown);
  size_t classes = 0;
  // A call is one step however many bytes it reads, at least one: so as many rounds as bytes are enough.
  for (uint32_t round = 0; round <= kHorizon && context.work(static_cast<int64_t>(pushdown->state_count()) / 4); ++round) {
    const size_t now = refinement.round();
    if (now == classes) break;
    classes = now;
  }
  pushdown->classes = refinement.take();
  pushdown->horizon = kHorizon;
}

}  // namespace slipstream::grammar
