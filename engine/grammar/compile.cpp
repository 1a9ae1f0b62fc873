// Format -> grammar: hands each part to the compiler of its syntax and joins the results.
#include "engine/base/utf8.h"
#include "engine/grammar/ebnf.h"
#include "engine/grammar/grammar.h"
#include "engine/grammar/json_text.h"
#include "engine/grammar/matcher.h"
#include "engine/grammar/pushdown.h"
#include "engine/grammar/regex.h"
#include "engine/grammar/schema_compiler.h"

namespace slipstream::grammar {

namespace {

class FormatCompiler {
 public:
  explicit FormatCompiler(CompileContext& context) : context_(context), e_(context) {}

  std::shared_ptr<Pushdown> run(const Format& format) {
    const Expr root = text_of(format, 0);
    return context_.failed() ? nullptr : make_pushdown(root, e_);
  }

 private:
  Expr text_of(const Format& format, int depth) {
    const std::string outer = context_.param;
    if (!format.param.empty()) context_.param = format.param;
    const Expr text = admitted(format, depth) ? text_of_kind(format, depth) : e_.nothing();
    if (!context_.failed()) context_.param = outer;  // else the errors of the end name the part, too
    return text;
  }

  bool admitted(const Format& format, int depth) {
    source_bytes_ += static_cast<int64_t>(format.text.size() + format.whitespace.pattern.size());
    for (const std::string& text : format.texts) source_bytes_ += static_cast<int64_t>(text.size());
    if (source_bytes_ > limits::kGrammarSourceBytes)
      context_.fail("the grammar has more than " + std::to_string(limits::kGrammarSourceBytes) + " bytes of source; shorten it");
    if (depth > limits::kGrammarDepth)
      context_.fail("formats nest deeper than " + std::to_string(limits::kGrammarDepth));
    return context_.work(1);
  }

  Expr text_of_kind(const Format& format, int depth) {
    switch (format.kind) {
      case Format::Kind::kJsonObject: return JsonText(e_, format.whitespace).object();
      case Format::Kind::kJsonSchema: return SchemaCompiler(format.text, format.whitespace, e_).value();
      case Format::Kind::kXmlParameters: return SchemaCompiler(format.text, format.whitespace, e_).xml_parameters();
      case Format::Kind::kRegex: return e_.automaton(regex_automaton(format.text, RegexMatch::kWhole, e_));
      case Format::Kind::kEbnf: return parse_ebnf(format.text, e_);
      case Format::Kind::kText: return e_.bytes(format.text);
      case Format::Kind::kToken: return token(format.token);
      case Format::Kind::kFreeText: return free_text(format.texts);
      case Format::Kind::kSequence: return e_.sequence(parts(format, depth));
      case Format::Kind::kAnyOf: return e_.choice(parts(format, depth));
      case Format::Kind::kRepeat: return repeated(format, depth);
    }
    return e_.nothing();
  }

  std::vector<Expr> parts(const Format& format, int depth) {
    std::vector<Expr> out;
    for (const Format& part : format.parts) {
      if (context_.failed()) break;
      out.push_back(text_of(part, depth + 1));
    }
    return out;
  }

  Expr token(int32_t id) {
    CHECK(id >= 0 && id < (1 << 28), "a format names a token that no vocabulary has");
    return e_.symbol(kTokenSymbols + static_cast<Symbol>(id));
  }

  Expr free_text(const std::vector<std::string>& excluded) {
    const Automaton any = e_.build(e_.repeat(e_.any_character(), 0, -1));
    if (excluded.empty()) return e_.automaton(any);
    const Expr anything = e_.repeat(e_.range(0, 255), 0, -1);
    std::vector<Expr> texts;
    for (const std::string& text : excluded) texts.push_back(e_.bytes(text));
    const Automaton holding = e_.build(e_.sequence({anything, e_.choice(std::move(texts)), anything}));
    return e_.automaton(difference(any, holding, context_));
  }

  Expr repeated(const Format& format, int depth) {
    CHECK(format.parts.size() == 1 && format.min >= 0 && format.max >= -1 && format.min <= limits::kGrammarRepeat &&
              format.max <= limits::kGrammarRepeat, "a repetition's bounds");
    return e_.repeat(text_of(format.parts[0], depth + 1), format.min, format.max);
  }

  CompileContext& context_;
  Expressions e_;
  int64_t source_bytes_ = 0;
};

}  // namespace

Result<std::shared_ptr<const Grammar>> compile(const Format& format, std::chrono::milliseconds budget) {
  CompileContext context(budget);
  context.param = format.param;
  std::shared_ptr<Pushdown> grammar = FormatCompiler(context).run(format);
  if (!context.failed()) share_classes(grammar.get(), context);
  if (!context.failed() && !Stacks(*grammar).start())
    context.fail("the grammar can be read in more than " + std::to_string(limits::kGrammarStacks) +
                 " ways at its start; make its alternatives differ earlier");
  if (context.failed()) return context.error();
  return std::shared_ptr<const Grammar>(std::move(grammar));
}

}  // namespace slipstream::grammar
