// Expressions: precedence as in Jinja 3, which is not quite Python's. Must never know how they are evaluated.
#include "engine/text/template_parser.h"

#include <algorithm>

#include "engine/text/template_builtins.h"

namespace slipstream::jinja {

Parser::Parser(std::string_view source) : tokens_(tokenize(source)) {
  for (const char* name : {"loop", "caller", "kwargs", "varargs"}) symbol(name);
}

void Parser::error(std::string message) const {
  throw Failure{Failure::What::kError, std::move(message), token().line};
}

bool Parser::is_operator(std::string_view text) const {
  return token().kind == TokenKind::kOperator && token().text == text;
}

bool Parser::is_name(std::string_view text) const { return token().kind == TokenKind::kName && token().text == text; }

bool Parser::skip_operator(std::string_view text) {
  const bool found = is_operator(text);
  if (found) take();
  return found;
}

bool Parser::skip_name(std::string_view text) {
  const bool found = is_name(text);
  if (found) take();
  return found;
}

void Parser::expect_operator(std::string_view text) {
  if (!skip_operator(text)) error("expected '" + std::string(text) + "', got " + describe(token()));
}

Token Parser::expect_name() {
  if (token().kind != TokenKind::kName) error("expected a name, got " + describe(token()));
  return take();
}

void Parser::expect(TokenKind kind) {
  if (token().kind != kind)
    error(std::string("expected ") + (kind == TokenKind::kBlockEnd ? "'%}'" : "'}}'") + ", got " + describe(token()));
  take();
}

int Parser::symbol(const std::string& name) {
  const auto [entry, added] = symbol_of_.emplace(name, static_cast<int>(symbols_.size()));
  if (added) symbols_.push_back(name);
  return entry->second;
}

ExprPtr Parser::node(ExprKind kind, int line) const {
  auto expr = std::make_unique<Expr>();
  expr->kind = kind;
  expr->line = line;
  return expr;
}

// Sets the depth of the tree; every node passes here once its parts are known.
ExprPtr Parser::finish(ExprPtr expr) const {
  int deepest = 0;
  const auto look_at = [&](const ExprPtr& part) {
    if (part != nullptr) deepest = std::max(deepest, part->depth);
  };
  for (const ExprPtr& item : expr->items) look_at(item);
  if (expr->call != nullptr) {
    for (const ExprPtr& argument : expr->call->positional) look_at(argument);
    for (const auto& [name, argument] : expr->call->named) look_at(argument);
    look_at(expr->call->star);
    look_at(expr->call->star_star);
  }
  expr->depth = deepest + 1;
  if (expr->depth > kMaxTreeDepth) error("an expression is nested too deeply");
  return expr;
}

ExprPtr Parser::binary(ExprKind kind, Op op, ExprPtr left, ExprPtr right, int line) const {
  ExprPtr expr = node(kind, line);
  expr->op = op;
  expr->items.push_back(std::move(left));
  expr->items.push_back(std::move(right));
  return finish(std::move(expr));
}

ExprPtr Parser::expression(bool with_conditional) {
  const Nesting nesting(this);
  return with_conditional ? conditional() : disjunction();
}

ExprPtr Parser::conditional() {
  const Nesting nesting(this);
  const size_t unknown_before = unknown_.size();
  int line = token().line;
  ExprPtr value = disjunction();
  while (skip_name("if")) {
    ExprPtr expr = node(ExprKind::kConditional, line);
    expr->items.resize(3);
    expr->items[1] = std::move(value);
    expr->items[0] = disjunction();
    if (skip_name("else")) expr->items[2] = conditional();
    value = finish(std::move(expr));
    unknown_.resize(unknown_before);  // what runs under a condition is looked up when it runs
    line = token().line;
  }
  return value;
}

ExprPtr Parser::disjunction() {
  ExprPtr left = conjunction();
  while (is_name("or")) {
    const int line = take().line;
    ExprPtr right = conjunction();
    left = binary(ExprKind::kOr, Op::kAdd, std::move(left), std::move(right), line);
  }
  return left;
}

ExprPtr Parser::conjunction() {
  ExprPtr left = negation();
  while (is_name("and")) {
    const int line = take().line;
    ExprPtr right = negation();
    left = binary(ExprKind::kAnd, Op::kAdd, std::move(left), std::move(right), line);
  }
  return left;
}

ExprPtr Parser::negation() {
  if (!is_name("not")) return comparison();
  const Nesting nesting(this);
  ExprPtr expr = node(ExprKind::kUnary, take().line);
  expr->op = Op::kNot;
  expr->items.push_back(negation());
  return finish(std::move(expr));
}

ExprPtr Parser::comparison() {
  ExprPtr first = sum();
  ExprPtr expr = node(ExprKind::kCompare, token().line);
  constexpr std::pair<std::string_view, Op> kComparisons[] = {{"==", Op::kEq}, {"!=", Op::kNe}, {"<", Op::kLt},
                                                              {"<=", Op::kLe}, {">", Op::kGt},  {">=", Op::kGe}};
  for (;;) {
    bool found = false;
    for (const auto& [text, op] : kComparisons) {
      if (!skip_operator(text)) continue;
      expr->ops.push_back(op);
      found = true;
      break;
    }
    if (!found && skip_name("in")) {
      expr->ops.push_back(Op::kIn);
      found = true;
    } else if (!found && is_name("not") && look().kind == TokenKind::kName && look().text == "in") {
      take();
      take();
      expr->ops.push_back(Op::kNotIn);
      found = true;
    }
    if (!found) break;
    if (expr->items.empty()) expr->items.push_back(std::move(first));
    expr->items.push_back(sum());
  }
  return expr->ops.empty() ? std::move(first) : finish(std::move(expr));
}

ExprPtr Parser::sum() {
  ExprPtr left = concatenation();
  while (is_operator("+") || is_operator("-")) {
    const Token op = take();
    ExprPtr right = concatenation();
    left = binary(ExprKind::kBinary, op.text == "+" ? Op::kAdd : Op::kSub, std::move(left), std::move(right), op.line);
  }
  return left;
}

ExprPtr Parser::concatenation() {
  ExprPtr first = product();
  if (!is_operator("~")) return first;
  ExprPtr expr = node(ExprKind::kConcat, token().line);
  expr->items.push_back(std::move(first));
  while (skip_operator("~")) expr->items.push_back(product());
  return finish(std::move(expr));
}

ExprPtr Parser::product() {
  ExprPtr left = power();
  constexpr std::pair<std::string_view, Op> kProducts[] = {
      {"*", Op::kMul}, {"/", Op::kDiv}, {"//", Op::kFloorDiv}, {"%", Op::kMod}};
  for (;;) {
    const auto* found = std::find_if(std::begin(kProducts), std::end(kProducts),
                                     [&](const auto& row) { return is_operator(row.first); });
    if (found == std::end(kProducts)) return left;
    const int line = take().line;
    ExprPtr right = power();
    left = binary(ExprKind::kBinary, found->second, std::move(left), std::move(right), line);
  }
}

ExprPtr Parser::power() {
  ExprPtr left = unary();
  while (is_operator("**")) {
    const int line = take().line;
    ExprPtr right = unary();
    left = binary(ExprKind::kBinary, Op::kPow, std::move(left), std::move(right), line);
  }
  return left;
}

ExprPtr Parser::unary(bool with_filter) {
  const Nesting nesting(this);
  ExprPtr expr;
  if (is_operator("-") || is_operator("+")) {
    const Token op = take();
    expr = node(ExprKind::kUnary, op.line);
    expr->op = op.text == "-" ? Op::kNeg : Op::kPos;
    expr->items.push_back(unary(false));
    expr = finish(std::move(expr));
  } else {
    expr = primary();
  }
  expr = postfix(std::move(expr));
  return with_filter ? filters_and_tests(std::move(expr)) : std::move(expr);
}

ExprPtr Parser::primary() {
  const int line = token().line;
  ExprPtr expr = node(ExprKind::kConst, line);
  switch (token().kind) {
    case TokenKind::kName: {
      const std::string name = take().text;
      if (name == "true" || name == "True" || name == "false" || name == "False") {
        expr->constant = Value::boolean(name[0] == 't' || name[0] == 'T');
      } else if (name == "none" || name == "None") {
        expr->constant = Value::none();
      } else {
        expr->kind = ExprKind::kName;
        expr->name = name;
        expr->symbol = symbol(name);
        for (MacroCode* macro : macros_) {
          macro->uses_caller |= expr->symbol == kSymbolCaller;
          macro->uses_kwargs |= expr->symbol == kSymbolKwargs;
          macro->uses_varargs |= expr->symbol == kSymbolVarargs;
        }
      }
      return expr;
    }
    case TokenKind::kString: {
      std::string text;
      while (token().kind == TokenKind::kString) text += take().text;
      expr->constant = Value::literal(text);
      return expr;
    }
    case TokenKind::kInteger: expr->constant = Value::of_integer(take().integer); return expr;
    case TokenKind::kFloat: expr->constant = Value::of_real(take().real); return expr;
    default: break;
  }
  if (skip_operator("(")) {
    expr = tuple(true, true, {});
    expect_operator(")");
    return expr;
  }
  if (is_operator("[")) return list();
  if (is_operator("{")) return dict();
  error("unexpected " + describe(token()));
}

ExprPtr Parser::tuple(bool with_conditional, bool explicit_parentheses, std::string_view end_name) {
  const Nesting nesting(this);
  ExprPtr expr = node(ExprKind::kTuple, token().line);
  bool is_tuple = false;
  for (;;) {
    const bool end = token().kind == TokenKind::kVariableEnd || token().kind == TokenKind::kBlockEnd ||
                     is_operator(")") || (!end_name.empty() && is_name(end_name));
    if (end) break;
    expr->items.push_back(expression(with_conditional));
    if (!skip_operator(",")) break;
    is_tuple = true;
  }
  if (!is_tuple) {
    if (!expr->items.empty()) return std::move(expr->items.front());
    if (!explicit_parentheses) error("expected an expression, got " + describe(token()));
  }
  return finish(std::move(expr));
}

ExprPtr Parser::list() {
  ExprPtr expr = node(ExprKind::kList, take().line);
  while (!is_operator("]")) {
    if (!expr->items.empty()) {
      expect_operator(",");
      if (is_operator("]")) break;
    }
    expr->items.push_back(expression());
  }
  take();
  return finish(std::move(expr));
}

ExprPtr Parser::dict() {
  ExprPtr expr = node(ExprKind::kDict, take().line);
  while (!is_operator("}")) {
    if (!expr->items.empty()) {
      expect_operator(",");
      if (is_operator("}")) break;
    }
    expr->items.push_back(expression());
    expect_operator(":");
    expr->items.push_back(expression());
  }
  take();
  return finish(std::move(expr));
}

ExprPtr Parser::postfix(ExprPtr expr) {
  for (;;) {
    if (is_operator(".") || is_operator("["))
      expr = subscript(std::move(expr));
    else if (is_operator("("))
      expr = call(std::move(expr));
    else
      return expr;
  }
}

ExprPtr Parser::filters_and_tests(ExprPtr expr) {
  for (;;) {
    if (skip_operator("|"))
      expr = filter(std::move(expr));
    else if (is_name("is"))
      expr = test(std::move(expr));
    else if (is_operator("("))
      expr = call(std::move(expr));
    else
      return expr;
  }
}

ExprPtr Parser::subscript(ExprPtr object) {
  const int line = token().line;
  if (skip_operator(".")) {
    ExprPtr expr = node(ExprKind::kGetAttr, line);
    expr->items.push_back(std::move(object));
    if (token().kind == TokenKind::kInteger) {
      expr->kind = ExprKind::kGetItem;
      expr->items.push_back(node(ExprKind::kConst, line));
      expr->items.back()->constant = Value::of_integer(take().integer);
    } else if (token().kind == TokenKind::kName) {
      expr->name = take().text;
    } else {
      error("expected a name or number after '.', got " + describe(token()));
    }
    return finish(std::move(expr));
  }
  take();  // [
  ExprPtr expr = node(ExprKind::kGetItem, line);
  expr->items.push_back(std::move(object));
  if (!is_operator(":")) {
    expr->items.push_back(expression());
    if (is_operator(",")) {
      ExprPtr key = node(ExprKind::kTuple, line);
      key->items.push_back(std::move(expr->items.back()));
      while (skip_operator(",") && !is_operator("]")) key->items.push_back(expression());
      expr->items.back() = finish(std::move(key));
    }
  } else {
    expr->items.push_back(nullptr);
  }
  if (skip_operator(":")) {
    expr->kind = ExprKind::kSlice;
    expr->items.resize(4);
    if (!is_operator(":") && !is_operator("]")) expr->items[2] = expression();
    if (skip_operator(":") && !is_operator("]")) expr->items[3] = expression();
  }
  expect_operator("]");
  return finish(std::move(expr));
}

ExprPtr Parser::call(ExprPtr callee) {
  ExprPtr expr = node(ExprKind::kCall, token().line);
  expr->items.push_back(std::move(callee));
  expr->call = call_site();
  return finish(std::move(expr));
}

std::unique_ptr<CallSite> Parser::call_site() {
  const Nesting nesting(this);
  auto site = std::make_unique<CallSite>();
  expect_operator("(");
  bool first = true;
  while (!is_operator(")")) {
    if (!first) {
      expect_operator(",");
      if (is_operator(")")) break;
    }
    first = false;
    const bool closed = site->star != nullptr || site->star_star != nullptr;
    if (skip_operator("*")) {
      if (closed) error("invalid syntax for function call expression");
      site->star = expression();
    } else if (skip_operator("**")) {
      if (site->star_star != nullptr) error("invalid syntax for function call expression");
      site->star_star = expression();
    } else if (token().kind == TokenKind::kName && look().kind == TokenKind::kOperator && look().text == "=") {
      if (site->star_star != nullptr) error("invalid syntax for function call expression");
      std::string name = take().text;
      take();
      for (const auto& [present, value] : site->named)
        if (present == name) error("keyword argument repeated: " + name);
      site->named.emplace_back(std::move(name), expression());
    } else {
      if (closed || !site->named.empty()) error("invalid syntax for function call expression");
      site->positional.push_back(expression());
    }
  }
  take();
  return site;
}

std::string Parser::dotted_name() {
  std::string name = expect_name().text;
  while (skip_operator(".")) name += "." + expect_name().text;
  return name;
}

ExprPtr Parser::filter(ExprPtr input) {
  ExprPtr expr = node(ExprKind::kFilter, token().line);
  expr->name = dotted_name();
  expr->filter = find_filter(expr->name);
  if (expr->filter == nullptr && !soft_) unknown_.push_back({"there is no filter '" + expr->name + "'", expr->line});
  expr->items.push_back(std::move(input));
  expr->call = is_operator("(") ? call_site() : std::make_unique<CallSite>();
  return finish(std::move(expr));
}

ExprPtr Parser::test(ExprPtr input) {
  ExprPtr expr = node(ExprKind::kTest, take().line);
  const bool negated = skip_name("not");
  expr->name = dotted_name();
  expr->test = find_test(expr->name);
  if (expr->test == nullptr && !soft_) unknown_.push_back({"there is no test '" + expr->name + "'", expr->line});
  expr->items.push_back(std::move(input));
  expr->call = std::make_unique<CallSite>();
  if (is_operator("(")) {
    expr->call = call_site();
  } else if ((token().kind == TokenKind::kName && !is_name("else") && !is_name("or") && !is_name("and")) ||
             token().kind == TokenKind::kString || token().kind == TokenKind::kInteger ||
             token().kind == TokenKind::kFloat || is_operator("[") || is_operator("{")) {
    if (is_name("is")) error("tests cannot be chained with 'is'");
    ExprPtr argument = primary();
    expr->call->positional.push_back(postfix(std::move(argument)));
  }
  const int line = expr->line;
  expr = finish(std::move(expr));
  if (!negated) return expr;
  ExprPtr negation = node(ExprKind::kUnary, line);
  negation->op = Op::kNot;
  negation->items.push_back(std::move(expr));
  return finish(std::move(negation));
}

}  // namespace slipstream::jinja
