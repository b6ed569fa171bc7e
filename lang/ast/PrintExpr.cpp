#include "lang/ast/Printer.h"

#include <cstdio>

namespace cleave::ast {

namespace {

Binding bindingOf(BinaryOp op) {
  switch (op) {
  case BinaryOp::Or:
    return OfOr;
  case BinaryOp::And:
    return OfAnd;
  case BinaryOp::Add:
  case BinaryOp::Subtract:
    return OfSum;
  case BinaryOp::Multiply:
  case BinaryOp::Divide:
  case BinaryOp::Remainder:
    return OfTerm;
  case BinaryOp::Power:
    return OfPower;
  default:
    return OfCompare;
  }
}

Binding bindingOf(const Expr &expr) {
  if (auto *op = dynCast<BinaryExpr>(&expr)) {
    return bindingOf(op->op);
  }
  if (auto *op = dynCast<UnaryExpr>(&expr)) {
    return op->op == UnaryOp::Not ? OfNot : OfSign;
  }
  return isa<RangeExpr>(&expr) ? Loose : OfPostfix;
}

} // namespace

// --- Expressions ------------------------------------------------------------

void Printer::number(const NumberExpr &number) {
  if (number.isInteger) {
    out += std::to_string(number.integer);
  } else {
    char text[40];
    std::snprintf(text, sizeof text, "%.17g", number.value);
    // The shortest that reads back the same.
    for (int digits = 1; digits < 17; ++digits) {
      char shorter[40];
      std::snprintf(shorter, sizeof shorter, "%.*g", digits, number.value);
      double back = 0;
      std::sscanf(shorter, "%lf", &back);
      if (back == number.value) {
        std::copy(std::begin(shorter), std::end(shorter), text);
        break;
      }
    }
    std::string shown = text;
    out +=
        shown.find_first_of(".e") == std::string::npos ? shown + ".0" : shown;
  }
  if (!number.unit.empty()) {
    out += (number.unit == "%" ? "" : " ") + number.unit;
  }
}

void Printer::string(const std::string &value) {
  out += '"';
  for (char c : value) {
    switch (c) {
    case '\n':
      out += "\\n";
      break;
    case '\t':
      out += "\\t";
      break;
    case '\r':
      out += "\\r";
      break;
    case '\0':
      out += "\\0";
      break;
    case '"':
    case '\\':
      out += '\\';
      [[fallthrough]];
    default:
      out += c;
    }
  }
  out += '"';
}

void Printer::range(const ExprPtr &begin, const ExprPtr &end,
                    const ExprPtr &every) {
  if (begin) {
    expr(*begin);
    out += ' ';
  }
  if (begin || end || !every) {
    out += "..";
  }
  if (end) {
    out += ' ';
    expr(*end);
  }
  if (every) {
    out += begin || end ? " every " : "every ";
    expr(*every);
  }
}

void Printer::binary(const BinaryExpr &e) {
  Binding own = bindingOf(e.op);
  // Comparisons do not associate; powers do to the right; the rest to the left.
  bool right = e.op == BinaryOp::Power;
  bool compares = isComparison(e.op);
  auto tighter = static_cast<Binding>(own + 1);
  expr(*e.left, right ? OfPostfix : compares ? OfSum : own);
  out += std::string(" ") + spelling(e.op) + " ";
  // A sign may stand in an exponent.
  if (right && isa<UnaryExpr>(e.right)) {
    const Expr *operand = e.right.get();
    while (auto *sign = dynCast<UnaryExpr>(operand)) {
      if (sign->op == UnaryOp::Not) {
        break;
      }
      out += '-';
      operand = sign->operand.get();
    }
    expr(*operand, OfPower);
    return;
  }
  expr(*e.right, right ? OfPower : tighter);
}

void Printer::comprehension(const ComprehensionExpr &e) {
  out += '[';
  list(
      e.loops,
      [&](const ComprehensionExpr::Loop &loop) {
        out += "for ";
        names(loop.names);
        out += " in ";
        expr(*loop.over);
      },
      " ");
  out += ": ";
  expr(*e.value);
  out += ']';
}

void Printer::expr(const Expr &e, Binding least) {
  if (bindingOf(e) < least) {
    out += '(';
    expr(e);
    out += ')';
    return;
  }
  switch (e.kind) {
  case ExprKind::Number:
    return number(static_cast<const NumberExpr &>(e));
  case ExprKind::String:
    return string(static_cast<const StringExpr &>(e).value);
  case ExprKind::Bool:
    out += static_cast<const BoolExpr &>(e).value ? "true" : "false";
    return;
  case ExprKind::Name:
    out += static_cast<const NameExpr &>(e).name;
    return;
  case ExprKind::Member: {
    auto &member = static_cast<const MemberExpr &>(e);
    expr(*member.base, OfPostfix);
    out += '.' + member.member.text;
    return;
  }
  case ExprKind::Call:
    return call(static_cast<const CallExpr &>(e));
  case ExprKind::Index: {
    auto &index = static_cast<const IndexExpr &>(e);
    expr(*index.base, OfPostfix);
    out += '[';
    expr(*index.index);
    out += ']';
    return;
  }
  case ExprKind::Range: {
    auto &r = static_cast<const RangeExpr &>(e);
    return range(r.begin, r.end, r.every);
  }
  case ExprKind::List:
    out += '[';
    exprs(static_cast<const ListExpr &>(e).items);
    out += ']';
    return;
  case ExprKind::Tuple: {
    auto &items = static_cast<const TupleExpr &>(e).items;
    out += '(';
    exprs(items);
    out += items.size() == 1 ? ",)" : ")";
    return;
  }
  case ExprKind::Comprehension:
    return comprehension(static_cast<const ComprehensionExpr &>(e));
  case ExprKind::Unary: {
    auto &op = static_cast<const UnaryExpr &>(e);
    out += op.op == UnaryOp::Not ? "not " : "-";
    expr(*op.operand, op.op == UnaryOp::Not ? OfNot : OfSign);
    return;
  }
  case ExprKind::Binary:
    return binary(static_cast<const BinaryExpr &>(e));
  case ExprKind::Selection:
    out += '(';
    selection(static_cast<const SelectionExpr &>(e).selection);
    out += ')';
    return;
  }
}

void Printer::exprs(const std::vector<ExprPtr> &items) {
  list(items, [&](const ExprPtr &item) { expr(*item); });
}

void Printer::args(const std::vector<Arg> &items) {
  out += '(';
  list(items, [&](const Arg &arg) {
    if (arg.name) {
      out += arg.name->text + ": ";
    }
    expr(*arg.value);
    if (arg.axis) {
      out += " on " + arg.axis->text();
    }
  });
  out += ')';
}

void Printer::call(const CallExpr &call) {
  out += call.callee.text();
  if (call.hasParens) {
    args(call.args);
  }
  if (call.as) {
    out += " as " + call.as->text;
  }
}

// --- Selections, axes -------------------------------------------------------

void Printer::names(const std::vector<Name> &items) {
  list(items, [&](const Name &name) { out += name.text; });
}

void Printer::stepRange(const StepRange &r) {
  out += '[';
  if (r.index) {
    expr(*r.index);
  } else {
    range(r.begin, r.end, r.every);
  }
  out += ']';
}

void Printer::step(const PathStep &step) {
  out += step.kind == PathStep::Named  ? step.name.text
         : step.kind == PathStep::Star ? "*"
                                       : "**";
  if (step.index) {
    stepRange(*step.index);
  }
  out += step.optional ? "?" : "";
}

void Printer::path(const Path &path) {
  out += path.anchored ? "/" : "";
  list(path.steps, [&](const PathStep &s) { step(s); }, "/");
}

void Printer::group(const Group &g) {
  list(g.picks, [&](const Pick &pick) {
    switch (pick.kind) {
    case Pick::All:
      out += "all";
      break;
    case Pick::OfRole:
      out += spelling(pick.role);
      break;
    case Pick::OfPath:
      path(pick.path);
      break;
    case Pick::Nested:
      out += '(';
      selection(*pick.nested);
      out += ')';
      break;
    }
  });
}

void Printer::clauses(const std::vector<Clause> &items) {
  for (const Clause &clause : items) {
    if (clause.kind == Clause::Where) {
      out += " where ";
      expr(*clause.where);
    } else {
      out += clause.kind == Clause::In ? " in " : " except ";
      group(clause.group);
    }
  }
}

void Printer::selection(const Selection &s) {
  group(s.group);
  clauses(s.clauses);
}

void Printer::ref(const Ref &r) { out += r.text() + (r.optional ? "?" : ""); }

void Printer::axis(const AxisExpr &a) {
  if (a.none) {
    out += "none";
  }
  list(a.factors, [&](const Ref &r) { ref(r); }, " * ");
}

void Printer::axes(const std::vector<AxisDef> &items) {
  out += '[';
  list(items, [&](const AxisDef &def) {
    out += def.name.text;
    if (def.kind == AxisDef::Free) {
      out += ": free";
    } else if (def.kind == AxisDef::Sized) {
      out += ": ";
      expr(*def.size);
    } else if (def.kind == AxisDef::Nested) {
      out += ": ";
      axes(def.factors);
    }
  });
  out += ']';
}

void Printer::comm(const Comm &c) {
  out += spelling(c.kind);
  if (c.axis) {
    out += " on ";
    axis(*c.axis);
  }
  if (c.hasGroup) {
    out += " for ";
    selection(c.selection);
  } else {
    clauses(c.selection.clauses);
  }
}

void Printer::options(const std::vector<Option> &items) {
  out += " with ";
  list(items, [&](const Option &option) {
    out += option.name.text + ": ";
    expr(*option.value);
  });
}

} // namespace cleave::ast
