#include "lang/parse/Build.h"

#include <algorithm>
#include <charconv>

namespace cleave {

using P = antlr::CleaveParser;
using namespace ast;

void Builder::setHeight(Expr &expr, uint32_t below) { expr.height = below + 1; }

bool Builder::isTooHigh(const Expr &operand) {
  if (operand.height < heightLimit) {
    return false;
  }
  if (!tooHigh) {
    tooHigh = true;
    diags
        .error(Diag::NestedTooDeeply, operand.range,
               "the expression is more than " + std::to_string(heightLimit) +
                   " operations high")
        .help("give parts of it names with `let`");
  }
  return true;
}

ExprPtr Builder::binary(BinaryOp op, SourceRange opRange, ExprPtr left,
                        ExprPtr right) {
  if (isTooHigh(*left)) {
    return left;
  }
  if (isTooHigh(*right)) {
    return right;
  }
  auto expr = std::make_unique<BinaryExpr>();
  expr->range = left->range.to(right->range);
  expr->op = op;
  expr->opRange = opRange;
  expr->left = std::move(left);
  expr->right = std::move(right);
  setHeight(*expr, std::max(expr->left->height, expr->right->height));
  return expr;
}

ExprPtr Builder::unary(UnaryOp op, SourceRange opRange, ExprPtr operand) {
  if (isTooHigh(*operand)) {
    return operand;
  }
  auto expr = std::make_unique<UnaryExpr>();
  expr->range = opRange.to(operand->range);
  expr->op = op;
  expr->operand = std::move(operand);
  setHeight(*expr, expr->operand->height);
  return expr;
}

std::vector<ExprPtr> Builder::buildExprs(P::ExprsContext *context) {
  std::vector<ExprPtr> values;
  for (P::ExprContext *expr : context->expr()) {
    values.push_back(buildExpr(expr));
  }
  return values;
}

ExprPtr Builder::buildValue(P::ValueContext *context) {
  if (context->span()) {
    return buildSpan(context->span());
  }
  auto expr = make<SelectionExpr>(context);
  expr->selection.range = expr->range;
  expr->selection.group.range = rangeOf(context->pick());
  expr->selection.group.picks.push_back(buildPick(context->pick()));
  for (P::ClauseContext *clause : context->clause()) {
    expr->selection.clauses.push_back(buildClause(clause));
  }
  return expr;
}

ExprPtr Builder::buildSpan(P::SpanContext *context) {
  if (context->one) {
    return buildExpr(context->one);
  }
  auto range = make<RangeExpr>(context);
  range->begin = buildExpr(context->first);
  range->end = buildExpr(context->limit);
  range->every = buildExpr(context->stride);
  uint32_t below = 0;
  for (const ExprPtr *part : {&range->begin, &range->end, &range->every}) {
    below = std::max(below, *part ? (*part)->height : 0);
  }
  setHeight(*range, below);
  return range;
}

ExprPtr Builder::buildExpr(P::ExprContext *context) {
  if (!context) {
    return nullptr;
  }
  auto parts = context->conjunction();
  auto ops = context->OR();
  ExprPtr left = buildConjunction(parts[0]);
  for (size_t i = 1; i < parts.size(); ++i) {
    left = binary(BinaryOp::Or, rangeOf(ops[i - 1]), std::move(left),
                  buildConjunction(parts[i]));
  }
  return left;
}

ExprPtr Builder::buildConjunction(P::ConjunctionContext *context) {
  auto parts = context->negation();
  auto ops = context->AND();
  ExprPtr left = buildNegation(parts[0]);
  for (size_t i = 1; i < parts.size(); ++i) {
    left = binary(BinaryOp::And, rangeOf(ops[i - 1]), std::move(left),
                  buildNegation(parts[i]));
  }
  return left;
}

ExprPtr Builder::buildNegation(P::NegationContext *context) {
  ExprPtr operand = buildComparison(context->comparison());
  auto nots = context->NOT();
  for (auto it = nots.rbegin(); it != nots.rend(); ++it) {
    operand = unary(UnaryOp::Not, rangeOf(*it), std::move(operand));
  }
  return operand;
}

BinaryOp Builder::buildCompare(P::CompareContext *context) {
  switch (context->getStart()->getType()) {
  case P::EQUAL:
    return BinaryOp::Equal;
  case P::NOT_EQUAL:
    return BinaryOp::NotEqual;
  case P::LESS:
    return BinaryOp::Less;
  case P::LESS_EQUAL:
    return BinaryOp::LessEqual;
  case P::GREATER:
    return BinaryOp::Greater;
  default:
    return BinaryOp::GreaterEqual;
  }
}

ExprPtr Builder::buildComparison(P::ComparisonContext *context) {
  ExprPtr left = buildSum(context->sum(0));
  if (!context->compare()) {
    return left;
  }
  return binary(buildCompare(context->compare()), rangeOf(context->compare()),
                std::move(left), buildSum(context->sum(1)));
}

// Operands and operators alternate among the children of a sum and a term.
ExprPtr Builder::buildSum(P::SumContext *context) {
  auto terms = context->term();
  ExprPtr left = buildTerm(terms[0]);
  for (size_t i = 1; i < terms.size(); ++i) {
    auto *op =
        static_cast<antlr4::tree::TerminalNode *>(context->children[2 * i - 1]);
    left = binary(op->getSymbol()->getType() == P::PLUS ? BinaryOp::Add
                                                        : BinaryOp::Subtract,
                  rangeOf(op), std::move(left), buildTerm(terms[i]));
  }
  return left;
}

ExprPtr Builder::buildTerm(P::TermContext *context) {
  auto factors = context->unary();
  ExprPtr left = buildUnary(factors[0]);
  for (size_t i = 1; i < factors.size(); ++i) {
    auto *op =
        static_cast<antlr4::tree::TerminalNode *>(context->children[2 * i - 1]);
    size_t type = op->getSymbol()->getType();
    left = binary(type == P::STAR    ? BinaryOp::Multiply
                  : type == P::SLASH ? BinaryOp::Divide
                                     : BinaryOp::Remainder,
                  rangeOf(op), std::move(left), buildUnary(factors[i]));
  }
  return left;
}

ExprPtr Builder::buildUnary(P::UnaryContext *context) {
  ExprPtr operand = buildPower(context->power());
  auto signs = context->MINUS();
  for (auto it = signs.rbegin(); it != signs.rend(); ++it) {
    operand = unary(UnaryOp::Negate, rangeOf(*it), std::move(operand));
  }
  return operand;
}

// `a ** -b ** c` is `a ** (-(b ** c))`.
ExprPtr Builder::buildPower(P::PowerContext *context) {
  ExprPtr base = buildPostfix(context->postfix());
  auto exponents = context->exponent();
  auto ops = context->POWER();
  ExprPtr right;
  for (size_t i = exponents.size(); i-- > 0;) {
    ExprPtr exponent = buildPostfix(exponents[i]->postfix());
    if (right) {
      exponent = binary(BinaryOp::Power, rangeOf(ops[i + 1]),
                        std::move(exponent), std::move(right));
    }
    auto signs = exponents[i]->MINUS();
    for (auto it = signs.rbegin(); it != signs.rend(); ++it) {
      exponent = unary(UnaryOp::Negate, rangeOf(*it), std::move(exponent));
    }
    right = std::move(exponent);
  }
  if (!right) {
    return base;
  }
  return binary(BinaryOp::Power, rangeOf(ops[0]), std::move(base),
                std::move(right));
}

ExprPtr Builder::buildPostfix(P::PostfixContext *context) {
  ExprPtr expr = buildPrimary(context->primary());
  SourceRange range = expr->range;
  for (P::SuffixContext *suffix : context->suffix()) {
    range = range.to(rangeOf(suffix));
    if (isTooHigh(*expr)) {
      continue;
    }
    if (auto *member = dynamic_cast<P::MemberContext *>(suffix)) {
      auto node = std::make_unique<MemberExpr>();
      node->range = range;
      node->member = buildName(member->word());
      node->base = std::move(expr);
      setHeight(*node, node->base->height);
      expr = std::move(node);
    } else if (auto *index = dynamic_cast<P::IndexContext *>(suffix)) {
      auto node = std::make_unique<IndexExpr>();
      node->range = range;
      node->base = std::move(expr);
      node->index = buildSpan(index->span());
      setHeight(*node, std::max(node->base->height, node->index->height));
      expr = std::move(node);
    } else {
      expr = buildArguments(std::move(expr),
                            static_cast<P::ArgumentsContext *>(suffix));
    }
  }
  return expr;
}

// A call: what is called must be a dotted name.
ExprPtr Builder::buildArguments(ExprPtr callee, P::ArgumentsContext *context) {
  auto call = std::make_unique<CallExpr>();
  call->range = callee->range.to(rangeOf(context));
  call->callee.range = callee->range;
  const Expr *part = callee.get();
  while (auto *member = dynCast<MemberExpr>(part)) {
    call->callee.parts.push_back(member->member);
    part = member->base.get();
  }
  if (auto *name = dynCast<NameExpr>(part)) {
    Name first;
    first.range = name->range;
    first.text = name->name;
    call->callee.parts.push_back(first);
    std::reverse(call->callee.parts.begin(), call->callee.parts.end());
  } else {
    diags.error(Diag::SyntaxError, callee->range, "only a name can be called")
        .help("functions are not values; write the name of one before `(`");
  }
  call->args = buildArgs(context->args());
  checkAxes(*call);
  call->argsRange = rangeOf(context->LPAREN()).to(rangeOf(context->RPAREN()));
  if (context->word()) {
    call->as = buildName(context->word());
  }
  uint32_t below = 0;
  for (const Arg &arg : call->args) {
    below = std::max(below, arg.value->height);
  }
  setHeight(*call, below);
  return call;
}

std::vector<Arg> Builder::buildArgs(P::ArgsContext *context) {
  std::vector<Arg> args;
  if (!context) {
    return args;
  }
  for (P::ArgContext *arg : context->arg()) {
    Arg &last = args.emplace_back();
    last.range = rangeOf(arg);
    if (arg->word()) {
      last.name = buildName(arg->word());
    }
    last.value = buildValue(arg->value());
    if (arg->dotted()) {
      last.axis = buildDotted(arg->dotted());
    }
  }
  return args;
}

// Only what devices send to each other is on an axis.
void Builder::checkAxes(const CallExpr &call) {
  std::string name = call.callee.text();
  for (const Arg &arg : call.args) {
    bool takesAxis = inCondition && (name == "bytes" || name == "time");
    if (arg.axis && !takesAxis) {
      diags
          .error(Diag::SyntaxError, arg.axis->range,
                 "an argument of `" + name + "` is on no axis")
          .help("`bytes(all_reduce on data)` and `time(…)` are, in the rules "
                "of runs");
    }
  }
}

std::unique_ptr<CallExpr> Builder::buildCall(P::CallContext *context) {
  auto call = make<CallExpr>(context);
  call->callee = buildDotted(context->dotted());
  call->hasParens = context->LPAREN() != nullptr;
  if (call->hasParens) {
    call->args = buildArgs(context->args());
    checkAxes(*call);
    call->argsRange = rangeOf(context->LPAREN()).to(rangeOf(context->RPAREN()));
  }
  uint32_t below = 0;
  for (const Arg &arg : call->args) {
    below = std::max(below, arg.value->height);
  }
  setHeight(*call, below);
  return call;
}

ExprPtr Builder::buildPrimary(P::PrimaryContext *context) {
  if (context->number()) {
    return buildNumber(context->number());
  }
  if (context->list()) {
    return buildList(context->list());
  }
  if (context->word()) {
    auto name = make<NameExpr>(context);
    name->name = sources.text(name->range);
    return name;
  }
  if (context->STRING()) {
    auto string = make<StringExpr>(context);
    string->value = stringValue(context->STRING()->getSymbol());
    return string;
  }
  if (context->TRUE() || context->FALSE()) {
    auto constant = make<BoolExpr>(context);
    constant->value = context->TRUE() != nullptr;
    return constant;
  }
  if (context->sel()) {
    auto selection = make<SelectionExpr>(context);
    selection->selection = buildSelection(context->sel());
    return selection;
  }
  auto spans = context->span();
  if (spans.size() == 1 && context->COMMA().empty()) {
    return buildSpan(spans[0]);
  }
  auto tuple = make<TupleExpr>(context);
  uint32_t below = 0;
  for (P::SpanContext *span : spans) {
    tuple->items.push_back(buildSpan(span));
    below = std::max(below, tuple->items.back()->height);
  }
  setHeight(*tuple, below);
  return tuple;
}

ExprPtr Builder::buildList(P::ListContext *context) {
  if (context->loop().empty()) {
    auto list = make<ListExpr>(context);
    uint32_t below = 0;
    for (P::SpanContext *span : context->span()) {
      list->items.push_back(buildSpan(span));
      below = std::max(below, list->items.back()->height);
    }
    setHeight(*list, below);
    return list;
  }
  auto list = make<ComprehensionExpr>(context);
  uint32_t below = 0;
  for (P::LoopContext *loop : context->loop()) {
    ComprehensionExpr::Loop &last = list->loops.emplace_back();
    last.range = rangeOf(loop);
    last.names = buildNames(loop->words());
    last.over = buildSpan(loop->span());
    below = std::max(below, last.over->height);
  }
  list->value = buildExpr(context->expr());
  setHeight(*list, std::max(below, list->value->height));
  return list;
}

ExprPtr Builder::buildNumber(P::NumberContext *context) {
  auto number = make<NumberExpr>(context);
  std::string digits(sources.text(rangeOf(context->NUMBER())));
  digits.erase(std::remove(digits.begin(), digits.end(), '_'), digits.end());
  const char *first = digits.data(), *last = first + digits.size();
  number->isInteger = digits.find_first_of(".eE") == std::string::npos;
  if (number->isInteger) {
    std::from_chars(first, last, number->integer); // Tokens.cpp checked it
    number->value = static_cast<double>(number->integer);
  } else {
    auto result = std::from_chars(first, last, number->value);
    if (result.ec != std::errc()) {
      diags
          .error(Diag::BadNumber, number->range,
                 "the number does not fit a double")
          .help("magnitudes go from 2.3e-308 to 1.7e308");
    }
  }
  if (context->UNIT()) {
    number->unitRange = rangeOf(context->UNIT());
    number->unit = sources.text(number->unitRange);
  }
  return number;
}

std::string Builder::stringValue(antlr4::Token *token) {
  std::string_view text = sources.text(rangeOf(token));
  std::string value;
  for (size_t i = 1; i + 1 < text.size(); ++i) {
    if (text[i] != '\\') {
      value += text[i];
      continue;
    }
    char c = text[++i];
    value += c == 'n'   ? '\n'
             : c == 't' ? '\t'
             : c == 'r' ? '\r'
             : c == '0' ? '\0'
                        : c;
  }
  return value;
}

} // namespace cleave
