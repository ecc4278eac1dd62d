#include "vm/base/version.h"

namespace serval {

const char* version() noexcept {
  return SERVAL_VERSION;
}

}  // namespace serval
