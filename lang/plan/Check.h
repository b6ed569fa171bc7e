// Rule 11: nothing silent. Resolves every value of the model under a plan.
#pragma once

#include "lang/plan/Elaborate.h"

namespace cleave::plan {

// Reports statements that want one axis in one value, `even` that does not
// divide, statements that govern nothing, and plain statements that discard an
// `also`. False after an error.
bool checkValues(const layout::Plan &plan,
                 const std::vector<layout::ValueInfo> &values,
                 DiagnosticEngine &diags);

} // namespace cleave::plan
