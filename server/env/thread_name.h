#pragma once
#include "absl/strings/string_view.h"

namespace embps {

// Names the calling thread for debuggers and top; cut to the 15 bytes that Linux keeps.
void SetThreadName(absl::string_view name);

}  // namespace embps
