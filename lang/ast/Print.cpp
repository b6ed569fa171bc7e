#include "lang/ast/Print.h"

#include <cstdio>

namespace cleave::ast {

namespace {

// How strongly an expression binds; operands that bind weaker than their place
// asks for get parentheses.
enum Binding {
  Loose,
  OfOr,
  OfAnd,
  OfNot,
  OfCompare,
  OfSum,
  OfTerm,
  OfSign,
  OfPower,
  OfPostfix
};

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

class Printer {
public:
  std::string out;

  void expr(const Expr &e, Binding least = Loose);
  void exprs(const std::vector<ExprPtr> &list);
  void call(const CallExpr &call);
  void args(const std::vector<Arg> &args);
  void range(const ExprPtr &begin, const ExprPtr &end, const ExprPtr &every);
  void number(const NumberExpr &number);
  void string(const std::string &value);
  void binary(const BinaryExpr &e);
  void comprehension(const ComprehensionExpr &e);

  void names(const std::vector<Name> &names);
  void selection(const Selection &s);
  void group(const Group &g);
  void clauses(const std::vector<Clause> &clauses);
  void path(const Path &path);
  void step(const PathStep &step);
  void stepRange(const StepRange &range);
  void axis(const AxisExpr &axis);
  void ref(const Ref &ref);
  void axes(const std::vector<AxisDef> &axes);
  void comm(const Comm &comm);
  void options(const std::vector<Option> &options);

  void params(const std::vector<Param> &params);
  void dim(const DimDef &dim);
  void product(const DimProduct &product);
  void type(const TypeRef &type);
  void block(const Block &block);
  void stmt(const Stmt &s);
  void codeStmt(const Stmt &s);
  void planStmt(const Stmt &s);
  void runStmt(const Stmt &s);
  void ifStmt(const IfStmt &s);
  void shard(const ShardStmt &s);
  void pipeline(const PipelineStmt &s);
  void expect(const ExpectStmt &s);
  void decl(const Decl &d);
  void algorithm(const AlgorithmDecl &d);

private:
  template <typename List, typename Each>
  void list(const List &items, Each each, const char *separator = ", ") {
    bool first = true;
    for (const auto &item : items) {
      out += first ? "" : separator;
      each(item);
      first = false;
    }
  }
  void line() { out += "\n" + std::string(2 * depth, ' '); }

  size_t depth = 0;
};

// --- Expressions
// ----------------------------------------------------------------

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

// --- Selections, axes
// -------------------------------------------------------------

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

// --- Statements
// -------------------------------------------------------------------

void Printer::block(const Block &b) {
  if (b.stmts.empty()) {
    out += "{ }";
    return;
  }
  out += '{';
  ++depth;
  for (const StmtPtr &s : b.stmts) {
    line();
    stmt(*s);
  }
  --depth;
  line();
  out += '}';
}

void Printer::product(const DimProduct &p) {
  list(p.factors, [&](const Name &name) { out += name.text; }, " * ");
}

void Printer::dim(const DimDef &d) {
  out += d.name.text;
  if (d.kind == DimDef::Size) {
    out += d.upTo ? " = up to " : " = ";
    expr(*d.size);
    out += d.like ? " like " + d.like->text : "";
    return;
  }
  out += " of ";
  if (d.kind == DimDef::Product) {
    return product(d.product);
  }
  list(
      d.parts,
      [&](const DimDef::Part &part) {
        out += part.name.text + ": ";
        product(part.product);
      },
      " + ");
}

void Printer::type(const TypeRef &t) {
  out += t.element.text;
  if (t.hasBrackets) {
    out += '[';
    names(t.dims);
    out += ']';
  }
}

void Printer::ifStmt(const IfStmt &s) {
  out += "if ";
  expr(*s.condition);
  out += ' ';
  block(s.thenBlock);
  if (s.elseBlock) {
    out += " else ";
    const auto &rest = s.elseBlock->stmts;
    if (rest.size() == 1 && isa<IfStmt>(rest[0])) {
      return stmt(*rest[0]);
    }
    block(*s.elseBlock);
  }
}

void Printer::stmt(const Stmt &s) {
  if (s.kind >= StmtKind::Plans) {
    return runStmt(s);
  }
  if (s.kind >= StmtKind::Mesh) {
    return planStmt(s);
  }
  codeStmt(s);
}

void Printer::codeStmt(const Stmt &s) {
  auto bind = [&](const char *word, const auto &b) {
    out += word;
    names(b.names);
    out += " = ";
    exprs(b.values);
  };
  if (auto *c = dynCast<DimStmt>(&s)) {
    out += "dim ";
    list(c->dims, [&](const DimDef &d) { dim(d); });
  } else if (auto *c = dynCast<InputStmt>(&s)) {
    out += "input ";
    names(c->names);
    out += ": ";
    type(c->type);
    if (c->from) {
      out += " from ";
      call(*c->from);
    }
  } else if (auto *c = dynCast<OutputStmt>(&s)) {
    out += "output ";
    names(c->names);
  } else if (auto *c = dynCast<ParamStmt>(&s)) {
    out += "param ";
    names(c->names);
    out += ": ";
    type(c->type);
    if (c->init) {
      out += " ~ ";
      call(*c->init);
    }
  } else if (auto *c = dynCast<LetStmt>(&s)) {
    bind("let ", *c);
  } else if (auto *c = dynCast<VarStmt>(&s)) {
    bind("var ", *c);
  } else if (auto *c = dynCast<AssignStmt>(&s)) {
    bind("", *c);
  } else if (auto *c = dynCast<RepeatStmt>(&s)) {
    out += "repeat " + c->dim.text;
    if (c->count) {
      out += " = ";
      expr(*c->count);
    }
    out += ' ';
    block(c->body);
  } else if (auto *c = dynCast<RegionStmt>(&s)) {
    out += "region " + c->name.text + ' ';
    block(c->body);
  } else if (auto *c = dynCast<IfStmt>(&s)) {
    ifStmt(*c);
  } else if (auto *c = dynCast<ReturnStmt>(&s)) {
    out += "return ";
    exprs(c->values);
  } else if (auto *c = dynCast<MinimizeStmt>(&s)) {
    out += "minimize ";
    expr(*c->value);
  } else if (auto *c = dynCast<ForStmt>(&s)) {
    out += "for ";
    names(c->names);
    out += " in ";
    expr(*c->over);
    out += ' ';
    block(c->body);
  } else if (auto *c = dynCast<StateStmt>(&s)) {
    out += "state ";
    names(c->names);
    out += " ~ ";
    call(*c->init);
  } else if (auto *c = dynCast<UpdateStmt>(&s)) {
    out += "update ";
    expr(*c->value);
  } else if (auto *c = dynCast<ActionStmt>(&s)) {
    const char *words[] = {"forward ", "backward ", "input_grad ",
                           "weight_grad "};
    out += words[c->action];
    expr(*c->which);
  }
}

void Printer::shard(const ShardStmt &s) {
  out += s.largest ? "shard largest" : "shard ";
  list(s.dims, [&](const Ref &r) { ref(r); });
  out += s.also ? " also on " : " on ";
  list(s.alternatives, [&](const AxisExpr &a) { axis(a); }, " else ");
  if (s.dealt) {
    out += " dealt ";
    expr(*s.dealt);
  }
  out += s.folded ? " folded" : "";
  out += s.even ? " even" : "";
  if (s.selection) {
    out += " for ";
    selection(*s.selection);
  }
}

void Printer::pipeline(const PipelineStmt &s) {
  out += "pipeline ";
  step(s.step);
  out += " on " + s.axis.text;
  if (s.chunks) {
    out += " chunks ";
    expr(*s.chunks);
  }
  if (!s.counting.empty()) {
    out += " counting ";
    names(s.counting);
  }
  out += s.byCost ? " by cost" : "";
  if (!s.pieces.empty()) {
    out += " as ";
    list(s.pieces, [&](const PipelineStmt::Piece &piece) {
      if (piece.times) {
        expr(*piece.times);
        out += " of ";
      }
      out += '[';
      list(piece.items, [&](const PipelineStmt::Item &item) {
        out += item.count ? std::to_string(*item.count) + " " : "";
        out += item.name.text;
      });
      out += ']';
    });
  }
  out += " with ";
  call(*s.schedule);
}

void Printer::expect(const ExpectStmt &s) {
  out += "expect ";
  switch (s.form) {
  case ExpectStmt::Within:
    out += s.inner.text + " within " + s.outer.text;
    return;
  case ExpectStmt::No:
    out += "no ";
    comm(s.comm);
    return;
  case ExpectStmt::Bytes:
    out += "bytes of ";
    [[fallthrough]];
  case ExpectStmt::Count:
    comm(s.comm);
    out += std::string(" ") + spelling(s.compare) + " ";
    expr(*s.value, OfSum);
    for (const Name &loop : s.per) {
      out += " per " + loop.text;
    }
    return;
  case ExpectStmt::Holds:
    expr(*s.value);
    return;
  }
}

void Printer::planStmt(const Stmt &s) {
  if (auto *p = dynCast<MeshStmt>(&s)) {
    out += "mesh ";
    axes(p->axes);
    if (!p->levels.empty()) {
      out += " on ";
      axes(p->levels);
    } else if (p->devices) {
      out += " on ";
      expr(*p->devices);
    }
  } else if (auto *p = dynCast<ViewStmt>(&s)) {
    out += "view ";
    axes(p->axes);
  } else if (auto *p = dynCast<ShardStmt>(&s)) {
    shard(*p);
  } else if (auto *p = dynCast<PlaceStmt>(&s)) {
    out += "place ";
    selection(p->selection);
    out += " on ";
    list(p->places, [&](const PlaceStmt::Where &place) {
      out += place.axis.text;
      stepRange(place.index);
    });
  } else if (auto *p = dynCast<KeepStmt>(&s)) {
    const char *words[] = {"save ", "recompute ", "offload "};
    out += words[p->what];
    selection(p->selection);
    if (!p->options.empty()) {
      options(p->options);
    }
  } else if (auto *p = dynCast<PerStmt>(&s)) {
    out += p->what == PerStmt::Gather ? "gather " : "reduce ";
    selection(p->selection);
    out += " per " + p->loop.text;
  } else if (auto *p = dynCast<MicroStmt>(&s)) {
    out += "micro " + p->dim.text + (p->into ? " into " : " of ");
    expr(*p->count);
  } else if (auto *p = dynCast<PipelineStmt>(&s)) {
    pipeline(*p);
  } else if (auto *p = dynCast<TuneStmt>(&s)) {
    out += p->lossy ? "lossy tune " : "tune ";
    comm(p->comm);
    options(p->options);
  } else if (auto *p = dynCast<UseStmt>(&s)) {
    out += "use ";
    call(*p->call);
    if (p->selection) {
      out += " for ";
      selection(*p->selection);
    }
  } else if (auto *p = dynCast<InStmt>(&s)) {
    out += "in ";
    selection(p->selection);
    out += ' ';
    block(p->body);
  } else if (auto *p = dynCast<ExpectStmt>(&s)) {
    expect(*p);
  }
}

void Printer::runStmt(const Stmt &s) {
  if (auto *r = dynCast<PlansStmt>(&s)) {
    out += "plans ";
    list(r->entries, [&](const PlansStmt::Entry &entry) {
      out += entry.name.text + " = ";
      call(*entry.plan);
    });
  } else if (auto *r = dynCast<StartStmt>(&s)) {
    out += "start " + r->plan.text;
  } else if (auto *r = dynCast<VaryStmt>(&s)) {
    out += "vary " + r->what.text + " = ";
    call(*r->value);
  } else if (auto *r = dynCast<WhenStmt>(&s)) {
    out += "when ";
    expr(*r->condition);
    if (r->during) {
      out += " for ";
      expr(*r->during);
    }
    out += " -> ";
    expr(*r->target);
  } else if (auto *r = dynCast<SnapshotStmt>(&s)) {
    out += "snapshot every ";
    expr(*r->every);
  } else if (auto *r = dynCast<EntryStmt>(&s)) {
    out += r->which == EntryStmt::Eval ? "eval" : "forward";
    options(r->values);
    if (r->every) {
      out += " every ";
      expr(*r->every);
    }
  }
}

// --- Declarations
// -------------------------------------------------------------------

void Printer::params(const std::vector<Param> &items) {
  out += '(';
  list(items, [&](const Param &param) {
    out += param.name.text;
    out += param.type ? ": " + param.type->text : "";
    if (param.defaultValue) {
      out += " = ";
      expr(*param.defaultValue);
    }
  });
  out += ')';
}

void Printer::algorithm(const AlgorithmDecl &d) {
  out += " for ";
  call(*d.replaces);
  out += " when ";
  list(d.conditions, [&](const AlgorithmDecl::Condition &condition) {
    if (condition.dim) {
      ref(*condition.dim);
      out += " on ";
      axis(condition.axis);
    } else {
      expr(*condition.value);
    }
  });
  out += ' ';
  block(d.body);
}

void Printer::decl(const Decl &d) {
  out += std::string(spelling(d.kind)) + ' ' + d.name.text;
  // Only functions and schedules need parentheses around nothing.
  auto optional = [&](const std::vector<Param> &items) {
    if (!items.empty()) {
      params(items);
    }
  };
  if (auto *m = dynCast<ModelDecl>(&d)) {
    optional(m->params);
    out += ' ';
    block(m->body);
  } else if (auto *f = dynCast<FnDecl>(&d)) {
    params(f->params);
    if (!f->dims.empty()) {
      out += " using ";
      names(f->dims);
    }
    out += ' ';
    block(f->body);
  } else if (auto *o = dynCast<OptimizerDecl>(&d)) {
    optional(o->params);
    out += ' ';
    block(o->body);
  } else if (auto *s = dynCast<StrategyDecl>(&d)) {
    optional(s->params);
    if (!s->axes.empty()) {
      out += " using ";
      names(s->axes);
    }
    out += ' ';
    block(s->body);
  } else if (auto *s = dynCast<ScheduleDecl>(&d)) {
    params(s->params);
    out += s->deal == ScheduleDecl::Dealt    ? " dealt "
           : s->deal == ScheduleDecl::Folded ? " folded "
                                             : " ";
    block(s->body);
  } else if (auto *a = dynCast<AlgorithmDecl>(&d)) {
    algorithm(*a);
  } else if (auto *p = dynCast<PlanDecl>(&d)) {
    optional(p->params);
    out += " of " + p->model.text + ' ';
    block(p->body);
  } else if (auto *r = dynCast<RunDecl>(&d)) {
    out += " of " + r->model.text + " with ";
    list(r->with, [&](const auto &item) { call(*item); });
    out += r->reproducible ? " reproducible " : " ";
    block(r->body);
  } else if (auto *r = dynCast<ReducedDecl>(&d)) {
    args(r->args);
  }
}

template <typename Print> std::string printed(Print print) {
  Printer printer;
  print(printer);
  return std::move(printer.out);
}

} // namespace

std::string print(const File &file) {
  return printed([&](Printer &p) {
    for (const Use &use : file.uses) {
      p.out += "use ";
      if (use.isPath) {
        p.string(use.path);
      } else {
        p.out += use.module.text();
      }
      p.out += '\n';
    }
    for (const auto &decl : file.decls) {
      p.out += p.out.empty() ? "" : "\n";
      p.decl(*decl);
      p.out += '\n';
    }
  });
}

std::string print(const Decl &decl) {
  return printed([&](Printer &p) { p.decl(decl); });
}

std::string print(const Stmt &stmt) {
  return printed([&](Printer &p) { p.stmt(stmt); });
}

std::string print(const Expr &expr) {
  return printed([&](Printer &p) { p.expr(expr); });
}

std::string print(const Selection &selection) {
  return printed([&](Printer &p) { p.selection(selection); });
}

std::string print(const AxisExpr &axis) {
  return printed([&](Printer &p) { p.axis(axis); });
}

std::string print(const Comm &comm) {
  return printed([&](Printer &p) { p.comm(comm); });
}

} // namespace cleave::ast
