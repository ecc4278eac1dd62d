// Global functions of templates: range, dict, namespace, raise_exception and strftime_now.
#pragma once

#include "models/jinja/evaluation.h"

namespace serval::jinja {

void add_functions(Scope* scope);

}  // namespace serval::jinja
