// Statements: control flow, loops, assignment and blocks. Must never know JSON, HTTP or tokens.
#include "engine/text/template_builtins.h"
#include "engine/text/template_evaluator.h"
#include "engine/text/template_format.h"

namespace slipstream::jinja {

namespace {

ScopePtr inner_scope(const ScopePtr& parent) {
  auto scope = std::make_shared<Scope>();
  scope->parent = parent;
  return scope;
}

}  // namespace

Text Evaluator::run() {
  auto scope = std::make_shared<Scope>();
  captured_scopes_.push_back(scope);
  run_body(program_.body, scope);
  return output_.take();
}

void Evaluator::emit(const Text& text) {
  meter_.spend_bytes(text.size());
  meter_.check_size(static_cast<uint64_t>(out_->size()) + text.size());
  out_->append(text);
}

Evaluator::Flow Evaluator::run_body(const Body& body, const ScopePtr& scope) {
  const Level level(this);
  for (const Statement& statement : body) {
    meter_.spend(1);
    const Flow flow = run_statement(statement, scope);
    if (flow != Flow::kNormal) return flow;
  }
  return Flow::kNormal;
}

Evaluator::Flow Evaluator::run_statement(const Statement& statement, const ScopePtr& scope) {
  try {
    switch (statement.kind) {
      case StatementKind::kText: emit(statement.text); break;
      case StatementKind::kOutput: {
        const Value value = eval(*statement.expr, scope);
        emit(value.is(Kind::kLoop) ? describe_loop(value) : to_str(value, meter_));
        break;
      }
      case StatementKind::kIf: return run_if(statement, scope);
      case StatementKind::kFor: return run_for(statement, scope);
      case StatementKind::kSet: assign(statement.target, eval(*statement.expr, scope), scope); break;
      case StatementKind::kSetBlock: return run_set_block(statement, scope);
      case StatementKind::kMacro: scope->set(statement.symbol, make_macro(*statement.macro, scope)); break;
      case StatementKind::kCallBlock: run_call_block(statement, scope); break;
      case StatementKind::kFilterBlock: return run_filter_block(statement, scope);
      case StatementKind::kWith: return run_with(statement, scope);
      case StatementKind::kGeneration: return run_body(statement.body, inner_scope(scope));
      case StatementKind::kBreak: return Flow::kBreak;
      case StatementKind::kContinue: return Flow::kContinue;
    }
  } catch (Failure& failure) {
    if (failure.line == 0) failure.line = statement.line;
    throw;
  }
  return Flow::kNormal;
}

Evaluator::Flow Evaluator::run_if(const Statement& statement, const ScopePtr& scope) {
  for (const Branch& branch : statement.branches)
    if (is_truthy(eval(*branch.test, scope))) return run_body(branch.body, scope);
  return run_body(statement.else_body, scope);
}

Evaluator::Flow Evaluator::run_for(const Statement& statement, const ScopePtr& scope) {
  return run_loop(statement, eval(*statement.expr, scope), scope, 0);
}

// The next item that passes the loop's condition, which sees what the body has done so far.
bool Evaluator::fetch(LoopObject* loop, Value* item) {
  while (loop->cursor.next(item)) {
    meter_.spend(1);
    if (loop->statement->test == nullptr) return true;
    const ScopePtr scope = inner_scope(loop->scope);
    assign(loop->statement->target, *item, scope);
    if (is_truthy(eval(*loop->statement->test, scope))) return true;
  }
  return false;
}

bool Evaluator::peek(LoopObject* loop) {
  if (!loop->ahead.empty()) return true;
  Value item;
  if (!fetch(loop, &item)) return false;
  loop->ahead.push_back(std::move(item));
  return true;
}

bool Evaluator::advance(LoopObject* loop) {
  if (!peek(loop)) return false;
  loop->before = std::move(loop->current);
  loop->current = std::move(loop->ahead.front());
  loop->ahead.pop_front();
  ++loop->index0;
  return true;
}

Integer Evaluator::loop_length(LoopObject* loop) {
  if (loop->length) return *loop->length;
  if (loop->statement->test == nullptr) loop->length = loop->cursor.length();
  if (!loop->length) {
    Value item;
    while (fetch(loop, &item)) loop->ahead.push_back(item);
    loop->length = loop->index0 + 1 + static_cast<Integer>(loop->ahead.size());
  }
  return *loop->length;
}

Evaluator::Flow Evaluator::run_loop(const Statement& statement, Value iterable, const ScopePtr& scope, int depth) {
  auto loop = std::make_shared<LoopObject>(Cursor(std::move(iterable)));
  loop->statement = &statement;
  loop->scope = scope;
  loop->depth0 = depth;
  Value loop_value;
  loop_value.kind = Kind::kLoop;
  loop_value.object = loop;
  bool completed = false;  // some pass reached the end of the body; break and continue do not
  Flow flow = Flow::kNormal;
  while (flow != Flow::kBreak && advance(loop.get())) {
    const ScopePtr inner = inner_scope(scope);
    inner->set(kSymbolLoop, loop_value);
    assign(statement.target, loop->current, inner);
    flow = run_body(statement.body, inner);
    completed |= flow == Flow::kNormal;
  }
  // A loop that outlives its block must not keep what it ran over: chains of loops would grow without bound.
  loop->cursor = Cursor(Value());
  loop->ahead.clear();
  loop->changed.reset();
  loop->current = loop->before = Value();
  loop->scope.reset();
  return completed ? Flow::kNormal : run_body(statement.else_body, inner_scope(scope));
}

Value Evaluator::render_loop(const LoopObject& loop, const Value& iterable) {
  if (!loop.statement->recursive || loop.scope == nullptr)
    fail_type("The loop must have the 'recursive' marker to be called recursively.");
  TextBuilder inner;
  {
    const Redirect redirect(&out_, &inner);
    run_loop(*loop.statement, iterable, loop.scope, loop.depth0 + 1);
  }
  return Value::string(inner.take());
}

Evaluator::Flow Evaluator::run_set_block(const Statement& statement, const ScopePtr& scope) {
  const ScopePtr inner = inner_scope(scope);
  TextBuilder builder;
  {
    const Redirect redirect(&out_, &builder);
    const Flow flow = run_body(statement.body, inner);
    if (flow != Flow::kNormal) return flow;
  }
  Value text = Value::string(builder.take());
  if (statement.expr != nullptr) {
    captured_ = std::move(text);
    text = eval(*statement.expr, inner);
  }
  assign(statement.target, text, scope);
  return Flow::kNormal;
}

Evaluator::Flow Evaluator::run_filter_block(const Statement& statement, const ScopePtr& scope) {
  const ScopePtr inner = inner_scope(scope);
  TextBuilder builder;
  {
    const Redirect redirect(&out_, &builder);
    const Flow flow = run_body(statement.body, inner);
    if (flow != Flow::kNormal) return flow;
  }
  captured_ = Value::string(builder.take());
  emit(to_str(eval(*statement.expr, inner), meter_));
  return Flow::kNormal;
}

Evaluator::Flow Evaluator::run_with(const Statement& statement, const ScopePtr& scope) {
  const ScopePtr inner = inner_scope(scope);
  for (size_t i = 0; i < statement.targets.size(); ++i)
    assign(statement.targets[i], eval(*statement.values[i], scope), inner);
  return run_body(statement.body, inner);
}

Value Evaluator::make_macro(const MacroCode& code, const ScopePtr& scope) {
  auto macro = std::make_shared<MacroObject>();
  macro->code = &code;
  macro->scope = scope;
  if (captured_scopes_.back() != scope) captured_scopes_.push_back(scope);
  Value value;
  value.kind = Kind::kMacro;
  value.object = std::move(macro);
  return value;
}

void Evaluator::run_call_block(const Statement& statement, const ScopePtr& scope) {
  const Expr& expr = *statement.expr;
  const Value callee = eval(*expr.items[0], scope);
  Arguments arguments = eval_arguments(*expr.call, scope);
  if (arguments.find("caller") != nullptr) fail_type("got multiple values for keyword argument 'caller'");
  arguments.named.emplace_back("caller", make_macro(*statement.macro, scope));
  emit(to_str(call(callee, arguments), meter_));
}

void Evaluator::assign(const Target& target, const Value& value, const ScopePtr& scope) {
  switch (target.kind) {
    case Target::Kind::kName: scope->set(target.symbol, value); return;
    case Target::Kind::kAttribute: {
      const Value* found = scope->find(target.symbol);
      if (found == nullptr || !found->is(Kind::kNamespace)) fail("cannot assign attribute on non-namespace object");
      // transformers keeps such names from templates.
      if (target.name[0] == '_') fail("a namespace attribute cannot begin with an underscore: '" + target.name + "'");
      object_as<NamespaceObject>(*found).set(target.name, value);
      return;
    }
    case Target::Kind::kTuple: {
      const std::vector<Value> items = collect(value, meter_);
      if (items.size() != target.items.size())
        fail("cannot unpack " + std::to_string(items.size()) + " values to " + std::to_string(target.items.size()) +
             " names");
      for (size_t i = 0; i < items.size(); ++i) assign(target.items[i], items[i], scope);
      return;
    }
  }
}

Value Evaluator::loop_attribute(const Value& value, std::string_view name) {
  auto& loop = object_as<LoopObject>(value);
  if (name == "index0") return Value::of_integer(loop.index0);
  if (name == "index") return Value::of_integer(loop.index0 + 1);
  if (name == "first") return Value::boolean(loop.index0 == 0);
  if (name == "last") return Value::boolean(!peek(&loop));
  if (name == "length") return Value::of_integer(loop_length(&loop));
  if (name == "revindex") return Value::of_integer(loop_length(&loop) - loop.index0);
  if (name == "revindex0") return Value::of_integer(loop_length(&loop) - loop.index0 - 1);
  if (name == "depth") return Value::of_integer(loop.depth0 + 1);
  if (name == "depth0") return Value::of_integer(loop.depth0);
  if (name == "previtem") return loop.index0 > 0 ? loop.before : Value::undefined("there is no previous item");
  if (name == "nextitem") return peek(&loop) ? loop.ahead.front() : Value::undefined("there is no next item");
  if (name == "cycle" || name == "changed") return Value::method(value, name);
  return Value();
}

Text Evaluator::describe_loop(const Value& value) {
  auto& loop = object_as<LoopObject>(value);
  const std::string length = integer_to_string(loop_length(&loop));
  return Text("<LoopContext " + integer_to_string(loop.index0 + 1) + "/" + length + ">", false);
}

Value Evaluator::call_loop_method(const Value& value, const std::string& name, const Arguments& arguments) {
  auto& loop = object_as<LoopObject>(value);
  if (!arguments.named.empty()) fail_type("loop." + name + "() takes no keyword arguments");
  if (name == "cycle") {
    if (arguments.positional.empty()) fail_type("no items for cycling given");
    return arguments.positional[static_cast<size_t>(loop.index0) % arguments.positional.size()];
  }
  bool same = loop.changed && loop.changed->size() == arguments.positional.size();
  for (size_t i = 0; same && i < arguments.positional.size(); ++i)
    same = equal((*loop.changed)[i], arguments.positional[i], meter_);
  if (!same) loop.changed = arguments.positional;
  return Value::boolean(!same);
}

}  // namespace slipstream::jinja
