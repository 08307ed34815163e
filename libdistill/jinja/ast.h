// The syntax tree of a template.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "libdistill/jinja/value.h"

namespace distill::jinja {

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;

struct Expression {
  enum class Kind {
    kConstant,     // constant
    kName,         // name
    kList,         // children
    kTuple,        // children
    kDict,         // children: key, value, key, value, ...
    kAttribute,    // children[0] . name
    kItem,         // children[0] [ children[1] ]
    kSlice,        // children[0] [ children[1] : children[2] : children[3] ], absent ones are null
    kCall,         // children[0] ( the rest of children, *spread, keywords, **named_spread )
    kFilter,       // children[0] | name ( the same )
    kTest,         // children[0] is name ( the same )
    kNot,          // children[0]
    kNegative,     // children[0]
    kPositive,     // children[0]
    kBinary,       // children[0] name children[1]
    kCompare,      // children[0] operators[0] children[1] operators[1] children[2] ...
    kAnd,          // children[0], children[1]
    kOr,           // children[0], children[1]
    kConditional,  // children[0] if children[1] else children[2], which may be null
  };

  Kind kind = Kind::kConstant;
  int line = 1;
  int height = 1;
  Value constant;
  std::string name;
  std::vector<ExpressionPtr> children;
  std::vector<std::pair<std::string, ExpressionPtr>> keywords;
  ExpressionPtr spread, named_spread;  // may be null
  std::vector<std::string> operators;
};

struct Statement;
using Block = std::vector<Statement>;

struct Statement {
  enum class Kind {
    kText,         // text
    kOutput,       // value
    kIf,           // branches, otherwise
    kFor,          // target in value if condition: body; otherwise where nothing came
    kSet,          // target = value
    kSetBlock,     // target = body's text, through the filters of `value` where there is one
    kFilterBlock,  // body's text through the filters of `value`
    kMacro,        // text ( parameters ): body
    kCallBlock,    // value, a call, which is given the macro `caller` ( parameters ): body
    kWith,         // body, where each of `parameters` has its value
    kGeneration,   // body
    kBreak,
    kContinue,
  };

  Kind kind = Kind::kText;
  int line = 1;
  std::string text;
  ExpressionPtr target, value, condition;
  bool is_recursive = false;                                            // of a loop
  bool uses_varargs = false, uses_kwargs = false, uses_caller = false;  // of a macro: names in its body
  Block body, otherwise;
  std::vector<std::pair<ExpressionPtr, Block>> branches;
  std::vector<std::pair<std::string, ExpressionPtr>> parameters;  // with their defaults, which may be null
};

// The name under which the filters of a block find its text; no template can spell it.
inline constexpr char kBlockText[] = "";

struct ParsedTemplate {
  Block body;
  bool has_generation = false;  // a {% generation %} block occurs
};

// Several nodes as a list, since an initializer list would copy them.
template <typename... T>
std::vector<ExpressionPtr> Nodes(T... node) {
  std::vector<ExpressionPtr> nodes;
  (nodes.push_back(std::move(node)), ...);
  return nodes;
}

}  // namespace distill::jinja
