// A parsed template: statements and expressions as plain data. Const after parsing and shared between threads. Must
// never know how they are run.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/text/template_value.h"

namespace slipstream::jinja {

class Evaluator;
struct Arguments;
using FilterFunction = Value (*)(Evaluator&, const Value& input, const Arguments&);
using TestFunction = bool (*)(Evaluator&, const Value& input, const Arguments&);

enum class ExprKind : uint8_t {
  kConst,        // constant
  kName,         // symbol
  kList, kTuple, // items
  kDict,         // items: key, value, key, value, …
  kGetAttr,      // items[0] . name
  kGetItem,      // items[0] [ items[1] ]
  kSlice,        // items[0] [ items[1] : items[2] : items[3] ], the last three may be null
  kCall,         // items[0] ( call )
  kFilter,       // items[0] | name ( call )
  kTest,         // items[0] is name ( call )
  kUnary,        // op items[0]
  kBinary,       // items[0] op items[1]
  kAnd, kOr,     // items[0], items[1]
  kConcat,       // items joined by ~
  kCompare,      // items[0] ops[0] items[1] ops[1] …
  kConditional,  // items[1] if items[0] else items[2], which may be null
  kCaptured,     // the text of the filter or set block around it
};

enum class Op : uint8_t {
  kAdd, kSub, kMul, kDiv, kFloorDiv, kMod, kPow, kNeg, kPos, kNot,
  kEq, kNe, kLt, kLe, kGt, kGe, kIn, kNotIn,
};

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

struct CallSite {
  std::vector<ExprPtr> positional;
  std::vector<std::pair<std::string, ExprPtr>> named;
  ExprPtr star;       // *arguments
  ExprPtr star_star;  // **arguments
};

struct Expr {
  ExprKind kind = ExprKind::kConst;
  Op op = Op::kAdd;
  int line = 0;
  int depth = 1;  // of the tree below
  int symbol = -1;
  Value constant;
  std::string name;
  std::vector<ExprPtr> items;
  std::vector<Op> ops;
  std::unique_ptr<CallSite> call;
  FilterFunction filter = nullptr;  // null: unknown, an error when it runs
  TestFunction test = nullptr;
};

/// What an assignment writes to.
struct Target {
  enum class Kind : uint8_t { kName, kAttribute, kTuple };
  Kind kind = Kind::kName;
  int symbol = -1;
  std::string name;  // kName: of the variable; kAttribute: of the attribute
  std::vector<Target> items;
};

struct Statement;
using Body = std::vector<Statement>;

/// A macro, or the body of a call block.
struct MacroCode {
  std::string name;
  std::vector<std::string> parameters;
  std::vector<int> symbols;       // of the parameters
  std::vector<ExprPtr> defaults;  // of the last parameters
  Body body;
  bool uses_caller = false;
  bool uses_kwargs = false;
  bool uses_varargs = false;
};

enum class StatementKind : uint8_t {
  kText,        // text
  kOutput,      // expr
  kIf,          // branches, else_body
  kFor,         // target, expr, test, body, else_body
  kSet,         // target = expr
  kSetBlock,    // target = body | expr
  kMacro,       // macro, symbol
  kCallBlock,   // expr (a kCall), macro
  kFilterBlock, // body | expr
  kWith,        // targets = values, body
  kGeneration,  // body
  kBreak, kContinue,
};

struct Branch {
  ExprPtr test;
  Body body;
};

struct Statement {
  StatementKind kind = StatementKind::kText;
  int line = 0;
  int symbol = -1;
  bool recursive = false;
  Text text;
  ExprPtr expr;
  ExprPtr test;
  Target target;
  std::vector<Branch> branches;
  std::vector<Target> targets;
  std::vector<ExprPtr> values;
  Body body;
  Body else_body;
  std::unique_ptr<MacroCode> macro;
};

/// Symbols that the evaluator sets itself; the others follow.
enum WellKnownSymbol : int { kSymbolLoop, kSymbolCaller, kSymbolKwargs, kSymbolVarargs, kWellKnownSymbols };

struct Program {
  Body body;
  std::vector<std::string> symbols;  // names of variables, by symbol
};

/// Throws Failure with the line.
Program parse(std::string_view source);

}  // namespace slipstream::jinja
