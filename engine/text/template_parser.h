// The cursor over tokens and the bookkeeping that the two halves of the parser share. Must never know values beyond
// constants.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/text/template_lexer.h"
#include "engine/text/template_program.h"

namespace slipstream::jinja {

/// Tree depth and parser recursion: far above any real template, far below the stack.
constexpr int kMaxNesting = 200;
constexpr int kMaxTreeDepth = 400;

class Parser {
 public:
  explicit Parser(std::string_view source);
  Program run();

 private:
  // Counts recursion for as long as it lives.
  class Nesting {
   public:
    explicit Nesting(Parser* parser) : parser_(*parser) {
      if (++parser_.nesting_ > kMaxNesting) parser_.error("the template is nested too deeply");
    }
    ~Nesting() { --parser_.nesting_; }
    Nesting(const Nesting&) = delete;

   private:
    Parser& parser_;
  };
  struct Unknown {  // a filter or test that does not exist: an error unless it stands under a condition
    std::string message;
    int line;
  };

  // template_parser.cpp: tokens and expressions
  [[noreturn]] void error(std::string message) const;
  const Token& token() const { return tokens_[at_]; }
  const Token& look() const { return tokens_[at_ + 1 < tokens_.size() ? at_ + 1 : at_]; }
  Token take() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }
  bool is_operator(std::string_view text) const;
  bool is_name(std::string_view text) const;
  bool skip_operator(std::string_view text);
  bool skip_name(std::string_view text);
  void expect_operator(std::string_view text);
  Token expect_name();
  void expect(TokenKind kind);
  int symbol(const std::string& name);
  ExprPtr node(ExprKind kind, int line) const;
  ExprPtr finish(ExprPtr expr) const;
  ExprPtr binary(ExprKind kind, Op op, ExprPtr left, ExprPtr right, int line) const;

  ExprPtr expression(bool with_conditional = true);
  ExprPtr conditional();
  ExprPtr disjunction();
  ExprPtr conjunction();
  ExprPtr negation();
  ExprPtr comparison();
  ExprPtr sum();
  ExprPtr concatenation();
  ExprPtr product();
  ExprPtr power();
  ExprPtr unary(bool with_filter = true);
  ExprPtr primary();
  ExprPtr tuple(bool with_conditional, bool explicit_parentheses, std::string_view end_name);
  ExprPtr list();
  ExprPtr dict();
  ExprPtr postfix(ExprPtr expr);
  ExprPtr filters_and_tests(ExprPtr expr);
  ExprPtr subscript(ExprPtr expr);
  ExprPtr call(ExprPtr callee);
  std::unique_ptr<CallSite> call_site();
  ExprPtr filter(ExprPtr input);
  ExprPtr test(ExprPtr input);
  std::string dotted_name();

  // template_statements_parser.cpp
  Body body(std::initializer_list<std::string_view> ends);
  Body block_body(std::initializer_list<std::string_view> ends);
  Body scoped_body(std::initializer_list<std::string_view> ends);
  void statement(Body* out);
  Statement if_statement();
  Statement for_statement();
  Statement set_statement();
  Statement macro_statement();
  Statement call_statement();
  Statement filter_statement();
  Statement with_statement();
  Statement generation_statement();
  void print_statement(Body* out);
  Statement loop_control();
  void macro_body(MacroCode* macro, std::string_view end);
  void signature(MacroCode* macro);
  Target target(bool with_namespace, std::string_view end_name);
  Target single_target(bool with_namespace);
  int store(const Token& name);

  std::vector<Token> tokens_;
  size_t at_ = 0;
  int nesting_ = 0;
  int loops_ = 0;          // enclosing loops of the same function
  int enclosing_fors_ = 0; // of any function: `loop` is not assignable inside
  bool soft_ = false;      // under a condition
  std::vector<Unknown> unknown_;
  std::vector<MacroCode*> macros_;
  std::unordered_map<std::string, int> symbol_of_;
  std::vector<std::string> symbols_;
};

}  // namespace slipstream::jinja
