// Schedules in PyTorch's notation, from files. For Schedules.cpp alone.
#pragma once

#include "lang/schedule/Schedules.h"

namespace cleave::scheduling {

// The file of `schedule NAME from "file.csv"`: its path is relative to the
// source that says so.
std::optional<Evaluated> readDeclaredFile(const ast::ScheduleDecl &decl,
                                          SourceManager &sources,
                                          DiagnosticEngine &diags);

} // namespace cleave::scheduling
