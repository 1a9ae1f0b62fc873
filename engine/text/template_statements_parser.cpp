// Statements of the template language. Must never know how they are run.
#include <algorithm>

#include "engine/text/template_parser.h"

namespace slipstream::jinja {

namespace {

Statement make(StatementKind kind, int line) {
  Statement statement;
  statement.kind = kind;
  statement.line = line;
  return statement;
}

// Sets a variable for as long as it lives.
template <typename T>
class Scoped {
 public:
  Scoped(T* variable, T value) : variable_(*variable), old_(*variable) { variable_ = value; }
  ~Scoped() { variable_ = old_; }
  Scoped(const Scoped&) = delete;

 private:
  T& variable_;
  T old_;
};

}  // namespace

Program parse(std::string_view source) { return Parser(source).run(); }

Program Parser::run() {
  Program program;
  program.body = body({});
  if (!unknown_.empty()) throw Failure{Failure::What::kError, unknown_.front().message, unknown_.front().line};
  program.symbols = std::move(symbols_);
  return program;
}

// Statements up to a tag that begins with one of `ends`, whose name is the current token afterwards.
Body Parser::body(std::initializer_list<std::string_view> ends) {
  const Nesting nesting(this);
  Body out;
  for (;;) {
    switch (token().kind) {
      case TokenKind::kData: {
        Statement text = make(StatementKind::kText, token().line);
        text.text = Text(take().text, false);
        out.push_back(std::move(text));
        break;
      }
      case TokenKind::kVariableBegin: {
        Statement output = make(StatementKind::kOutput, take().line);
        output.expr = tuple(true, false, {});
        expect(TokenKind::kVariableEnd);
        out.push_back(std::move(output));
        break;
      }
      case TokenKind::kBlockBegin: {
        take();
        if (token().kind == TokenKind::kName &&
            std::find(ends.begin(), ends.end(), std::string_view(token().text)) != ends.end())
          return out;
        statement(&out);
        expect(TokenKind::kBlockEnd);
        break;
      }
      default:
        if (ends.size() == 0 && token().kind == TokenKind::kEnd) return out;
        error("the template ends where '" + std::string(ends.size() > 0 ? *(ends.end() - 1) : "") + "' is expected");
    }
  }
}

Body Parser::block_body(std::initializer_list<std::string_view> ends) {
  skip_operator(":");
  expect(TokenKind::kBlockEnd);
  return body(ends);
}

// A body with variables of its own; unknown filters in it are errors even under a condition further out.
Body Parser::scoped_body(std::initializer_list<std::string_view> ends) {
  const Scoped<bool> hard(&soft_, false);
  return block_body(ends);
}

void Parser::statement(Body* out) {
  if (token().kind != TokenKind::kName) error("expected the name of a tag, got " + describe(token()));
  const std::string& name = token().text;
  if (name == "if") return out->push_back(if_statement());
  if (name == "for") return out->push_back(for_statement());
  if (name == "set") return out->push_back(set_statement());
  if (name == "macro") return out->push_back(macro_statement());
  if (name == "call") return out->push_back(call_statement());
  if (name == "filter") return out->push_back(filter_statement());
  if (name == "with") return out->push_back(with_statement());
  if (name == "generation") return out->push_back(generation_statement());
  if (name == "break" || name == "continue") return out->push_back(loop_control());
  if (name == "print") return print_statement(out);
  for (const char* known : {"include", "import", "from", "extends", "block", "autoescape"})
    if (name == known)
      throw Failure{Failure::What::kUnsupported,
                    "the tag '" + name + "' is not supported in chat templates: they stand alone", token().line};
  error("unknown tag '" + name + "'");
}

Statement Parser::if_statement() {
  Statement out = make(StatementKind::kIf, token().line);
  const Scoped<bool> soft(&soft_, true);
  for (;;) {
    take();  // if, elif
    Branch branch;
    branch.test = tuple(false, false, {});
    branch.body = block_body({"elif", "else", "endif"});
    out.branches.push_back(std::move(branch));
    if (!is_name("elif")) break;
  }
  if (take().text == "else") {
    out.else_body = block_body({"endif"});
    take();
  }
  return out;
}

Statement Parser::for_statement() {
  Statement out = make(StatementKind::kFor, take().line);
  const Scoped<int> inside(&enclosing_fors_, enclosing_fors_ + 1);
  out.target = target(false, "in");
  if (!skip_name("in")) error("expected 'in', got " + describe(token()));
  out.expr = tuple(false, false, "recursive");
  {
    const Scoped<bool> hard(&soft_, false);
    if (skip_name("if")) out.test = expression();
  }
  out.recursive = skip_name("recursive");
  {
    // The body of a recursive loop is a function of its own, whose loop is still there to break.
    const Scoped<int> loop(&loops_, loops_ + 1);
    out.body = scoped_body({"endfor", "else"});
  }
  if (take().text == "else") {
    out.else_body = scoped_body({"endfor"});
    take();
  }
  return out;
}

Statement Parser::set_statement() {
  Statement out = make(StatementKind::kSet, take().line);
  out.target = target(true, {});
  if (skip_operator("=")) {
    out.expr = tuple(true, false, {});
    return out;
  }
  out.kind = StatementKind::kSetBlock;
  const Scoped<bool> hard(&soft_, false);
  if (is_operator("|")) {
    out.expr = node(ExprKind::kCaptured, out.line);
    while (skip_operator("|")) out.expr = filter(std::move(out.expr));
  }
  out.body = scoped_body({"endset"});
  take();
  return out;
}

void Parser::signature(MacroCode* macro) {
  expect_operator("(");
  while (!is_operator(")")) {
    if (!macro->parameters.empty()) expect_operator(",");
    const Token name = expect_name();
    if (std::find(macro->parameters.begin(), macro->parameters.end(), name.text) != macro->parameters.end())
      error("the parameter '" + name.text + "' is there twice");
    macro->parameters.push_back(name.text);
    macro->symbols.push_back(symbol(name.text));
    if (skip_operator("="))
      macro->defaults.push_back(expression());
    else if (!macro->defaults.empty())
      error("a parameter without default follows one with a default");
  }
  take();
}

void Parser::macro_body(MacroCode* macro, std::string_view end) {
  const Scoped<int> no_loop(&loops_, 0);
  macros_.push_back(macro);
  macro->body = scoped_body({end});
  macros_.pop_back();
  take();
  const auto caller = std::find(macro->parameters.begin(), macro->parameters.end(), "caller");
  const auto index = static_cast<size_t>(caller - macro->parameters.begin());
  if (macro->uses_caller && caller != macro->parameters.end() &&
      index + macro->defaults.size() < macro->parameters.size())
    error("the parameter 'caller' needs a default");
}

Statement Parser::macro_statement() {
  Statement out = make(StatementKind::kMacro, take().line);
  out.macro = std::make_unique<MacroCode>();
  const Token name = expect_name();
  out.macro->name = name.text;
  out.symbol = store(name);
  const Scoped<bool> hard(&soft_, false);
  signature(out.macro.get());
  macro_body(out.macro.get(), "endmacro");
  return out;
}

Statement Parser::call_statement() {
  Statement out = make(StatementKind::kCallBlock, take().line);
  out.macro = std::make_unique<MacroCode>();
  out.macro->name = "caller";
  if (is_operator("(")) signature(out.macro.get());
  out.expr = expression();
  if (out.expr->kind != ExprKind::kCall) error("a call block needs a call");
  macro_body(out.macro.get(), "endcall");
  return out;
}

Statement Parser::filter_statement() {
  Statement out = make(StatementKind::kFilterBlock, take().line);
  const Scoped<bool> hard(&soft_, false);
  out.expr = filter(node(ExprKind::kCaptured, out.line));
  while (skip_operator("|")) out.expr = filter(std::move(out.expr));
  out.body = scoped_body({"endfilter"});
  take();
  return out;
}

Statement Parser::with_statement() {
  Statement out = make(StatementKind::kWith, take().line);
  while (token().kind != TokenKind::kBlockEnd) {
    if (!out.targets.empty()) expect_operator(",");
    out.targets.push_back(target(false, {}));
    expect_operator("=");
    out.values.push_back(expression());
  }
  out.body = scoped_body({"endwith"});
  take();
  return out;
}

Statement Parser::generation_statement() {
  Statement out = make(StatementKind::kGeneration, take().line);
  const Scoped<int> no_loop(&loops_, 0);
  out.body = scoped_body({"endgeneration"});
  take();
  return out;
}

void Parser::print_statement(Body* out) {
  take();
  bool first = true;
  while (token().kind != TokenKind::kBlockEnd) {
    if (!first) expect_operator(",");
    first = false;
    Statement output = make(StatementKind::kOutput, token().line);
    output.expr = expression();
    out->push_back(std::move(output));
  }
}

Statement Parser::loop_control() {
  if (loops_ == 0) error("'" + token().text + "' stands outside of a loop");
  const Token name = take();
  return make(name.text == "break" ? StatementKind::kBreak : StatementKind::kContinue, name.line);
}

int Parser::store(const Token& name) {
  for (const char* constant : {"true", "True", "false", "False", "none", "None"})
    if (name.text == constant) error("cannot assign to '" + name.text + "'");
  if (enclosing_fors_ > 0 && name.text == "loop") error("cannot assign to the special variable 'loop' in a loop");
  return symbol(name.text);
}

Target Parser::single_target(bool with_namespace) {
  const Nesting nesting(this);
  if (skip_operator("(")) {
    Target out = target(with_namespace, {});
    expect_operator(")");
    return out;
  }
  if (token().kind != TokenKind::kName) error("cannot assign to " + describe(token()));
  const Token name = take();
  Target out;
  if (with_namespace && skip_operator(".")) {
    out.kind = Target::Kind::kAttribute;
    out.symbol = symbol(name.text);
    out.name = expect_name().text;
  } else {
    out.symbol = store(name);
    out.name = name.text;
  }
  return out;
}

Target Parser::target(bool with_namespace, std::string_view end_name) {
  Target out;
  out.kind = Target::Kind::kTuple;
  bool is_tuple = false;
  for (;;) {
    const bool end = token().kind == TokenKind::kVariableEnd || token().kind == TokenKind::kBlockEnd ||
                     is_operator(")") || (!end_name.empty() && is_name(end_name));
    if (end) break;
    out.items.push_back(single_target(with_namespace));
    if (!skip_operator(",")) break;
    is_tuple = true;
  }
  if (is_tuple) return out;
  if (out.items.empty()) error("expected a name to assign to, got " + describe(token()));
  return std::move(out.items.front());
}

}  // namespace slipstream::jinja
