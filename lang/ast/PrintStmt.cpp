#include "lang/ast/Printer.h"

namespace cleave::ast {

// --- Statements -------------------------------------------------------------

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

} // namespace cleave::ast
