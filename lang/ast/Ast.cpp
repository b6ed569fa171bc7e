#include "lang/ast/Ast.h"

namespace cleave::ast {

Expr::~Expr() = default;
Stmt::~Stmt() = default;
Decl::~Decl() = default;

std::string DottedName::text() const {
  std::string result;
  for (const Name &part : parts) {
    result += (result.empty() ? "" : ".") + part.text;
  }
  return result;
}

const char *spelling(Role role) {
  switch (role) {
  case Role::Params:
    return "params";
  case Role::Weights:
    return "weights";
  case Role::Gradients:
    return "gradients";
  case Role::Optimizer:
    return "optimizer";
  case Role::Activations:
    return "activations";
  case Role::Inputs:
    return "inputs";
  case Role::Caches:
    return "caches";
  case Role::Forward:
    return "forward";
  case Role::Backward:
    return "backward";
  case Role::Update:
    return "update";
  }
  return "";
}

const char *spelling(BinaryOp op) {
  switch (op) {
  case BinaryOp::Add:
    return "+";
  case BinaryOp::Subtract:
    return "-";
  case BinaryOp::Multiply:
    return "*";
  case BinaryOp::Divide:
    return "/";
  case BinaryOp::Remainder:
    return "%";
  case BinaryOp::Power:
    return "**";
  case BinaryOp::Equal:
    return "==";
  case BinaryOp::NotEqual:
    return "!=";
  case BinaryOp::Less:
    return "<";
  case BinaryOp::LessEqual:
    return "<=";
  case BinaryOp::Greater:
    return ">";
  case BinaryOp::GreaterEqual:
    return ">=";
  case BinaryOp::And:
    return "and";
  case BinaryOp::Or:
    return "or";
  }
  return "";
}

bool isComparison(BinaryOp op) {
  return op >= BinaryOp::Equal && op <= BinaryOp::GreaterEqual;
}

const char *spelling(CommKind kind) {
  switch (kind) {
  case CommKind::Collectives:
    return "collectives";
  case CommKind::AllReduce:
    return "all_reduce";
  case CommKind::AllGather:
    return "all_gather";
  case CommKind::ReduceScatter:
    return "reduce_scatter";
  case CommKind::AllToAll:
    return "all_to_all";
  case CommKind::Broadcast:
    return "broadcast";
  case CommKind::Shift:
    return "shift";
  case CommKind::Halo:
    return "halo";
  case CommKind::Send:
    return "send";
  }
  return "";
}

const char *spelling(DeclKind kind) {
  switch (kind) {
  case DeclKind::Model:
    return "model";
  case DeclKind::Fn:
    return "fn";
  case DeclKind::Optimizer:
    return "optimizer";
  case DeclKind::Strategy:
    return "strategy";
  case DeclKind::Schedule:
    return "schedule";
  case DeclKind::Algorithm:
    return "algorithm";
  case DeclKind::Plan:
    return "plan";
  case DeclKind::Run:
    return "run";
  case DeclKind::Reduced:
    return "reduced";
  }
  return "";
}

} // namespace cleave::ast
