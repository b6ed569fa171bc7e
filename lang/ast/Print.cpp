#include "lang/ast/Print.h"

#include "lang/ast/Printer.h"

namespace cleave::ast {

// --- Declarations -----------------------------------------------------------

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
    if (s->path) {
      out += " from ";
      string(*s->path);
      return;
    }
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

namespace {

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
