// Runs a program over the variables of one rendering. Owns scopes, output and the step budget; must never know JSON,
// HTTP or tokens. One rendering, one thread.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/text/template_call.h"
#include "engine/text/template_program.h"

namespace slipstream::jinja {

/// Variables of one block; names resolve outwards, as late as possible.
struct Scope {
  std::shared_ptr<Scope> parent;
  std::vector<std::pair<int, Value>> variables;

  const Value* find(int symbol) const;
  void set(int symbol, Value value);
};
using ScopePtr = std::shared_ptr<Scope>;

struct MacroObject : Object {
  const MacroCode* code = nullptr;
  ScopePtr scope;  // where it was defined
};

/// The variable `loop`, and the state of the loop itself.
struct LoopObject : Object {
  explicit LoopObject(Cursor items) : cursor(std::move(items)) {}
  const Statement* statement = nullptr;
  ScopePtr scope;  // around the loop
  Cursor cursor;
  std::deque<Value> ahead;  // fetched, not yet visited
  std::optional<Integer> length;
  Integer index0 = -1;
  int depth0 = 0;
  Value current, before;
  std::optional<std::vector<Value>> changed;
};

class Evaluator {
 public:
  Evaluator(const Program& program, Meter meter, int64_t now_unix_seconds);
  ~Evaluator();
  Evaluator(const Evaluator&) = delete;

  void set_variable(std::string_view name, Value value);
  /// The whole output. Once only.
  Text run();

  // For filters, tests, methods and functions.
  Meter& meter() { return meter_; }
  int64_t now() const { return now_; }
  Value get_attribute(const Value& object, std::string_view name);
  Value get_item(const Value& object, const Value& key);
  Value call(const Value& callee, const Arguments& arguments);
  Value filter(std::string_view name, const Value& input, const Arguments& arguments);
  bool test(std::string_view name, const Value& input, const Arguments& arguments);
  Value make_namespace();

 private:
  enum class Flow { kNormal, kBreak, kContinue };

  // Counts recursion for as long as it lives.
  class Level {
   public:
    explicit Level(Evaluator* evaluator);
    ~Level() { --evaluator_.levels_; }
    Level(const Level&) = delete;

   private:
    Evaluator& evaluator_;
  };
  // Counts nested calls of macros, methods, functions and recursive loops.
  class CallLevel {
   public:
    explicit CallLevel(Evaluator* evaluator);
    ~CallLevel() { --evaluator_.calls_; }
    CallLevel(const CallLevel&) = delete;

   private:
    Evaluator& evaluator_;
  };
  // Sends output elsewhere for as long as it lives.
  class Redirect {
   public:
    Redirect(TextBuilder** out, TextBuilder* to) : out_(out), outer_(*out) { *out = to; }
    ~Redirect() { *out_ = outer_; }
    Redirect(const Redirect&) = delete;

   private:
    TextBuilder** out_;
    TextBuilder* outer_;
  };

  // template_evaluator.cpp: expressions
  Value eval(const Expr& expr, const ScopePtr& scope);
  Value eval_name(const Expr& expr, const ScopePtr& scope);
  Value eval_container(const Expr& expr, const ScopePtr& scope);
  Value eval_slice(const Expr& expr, const ScopePtr& scope);
  Value eval_call(const Expr& expr, const ScopePtr& scope);
  Value eval_filter(const Expr& expr, const ScopePtr& scope);
  Value eval_test(const Expr& expr, const ScopePtr& scope);
  Value eval_concat(const Expr& expr, const ScopePtr& scope);
  Value eval_compare(const Expr& expr, const ScopePtr& scope);
  Value eval_conditional(const Expr& expr, const ScopePtr& scope);
  Arguments eval_arguments(const CallSite& site, const ScopePtr& scope);
  Value call_macro(const MacroObject& macro, const Arguments& arguments);
  void bind_macro(const MacroObject& macro, const Arguments& arguments, const ScopePtr& scope);
  Value loop_attribute(const Value& loop, std::string_view name);
  Value call_loop_method(const Value& loop, const std::string& name, const Arguments& arguments);

  // template_statements.cpp
  Flow run_body(const Body& body, const ScopePtr& scope);
  Flow run_statement(const Statement& statement, const ScopePtr& scope);
  Flow run_if(const Statement& statement, const ScopePtr& scope);
  Flow run_for(const Statement& statement, const ScopePtr& scope);
  Flow run_loop(const Statement& statement, Value iterable, const ScopePtr& scope, int depth);
  Flow run_set_block(const Statement& statement, const ScopePtr& scope);
  Flow run_filter_block(const Statement& statement, const ScopePtr& scope);
  Flow run_with(const Statement& statement, const ScopePtr& scope);
  void run_call_block(const Statement& statement, const ScopePtr& scope);
  Value make_macro(const MacroCode& code, const ScopePtr& scope);
  Value render_loop(const LoopObject& loop, const Value& iterable);
  bool fetch(LoopObject* loop, Value* item);
  bool advance(LoopObject* loop);
  bool peek(LoopObject* loop);
  Integer loop_length(LoopObject* loop);
  Text describe_loop(const Value& loop);
  void assign(const Target& target, const Value& value, const ScopePtr& scope);
  void emit(const Text& text);

  const Program& program_;
  Meter meter_;
  int64_t now_;
  int levels_ = 0;
  int calls_ = 0;
  std::vector<std::optional<Value>> context_;  // by symbol: the request's variables and the global functions
  TextBuilder output_;
  TextBuilder* out_ = &output_;
  Value captured_;
  // Kept to the end and then emptied: they may hold each other in circles or long chains.
  std::vector<ScopePtr> captured_scopes_;
  std::vector<std::shared_ptr<NamespaceObject>> namespaces_;
};

}  // namespace slipstream::jinja
