#include "vm/machine.h"

namespace serval {

Machine h200_machine() {
  return {.name = "h200",
          .sms = 132,
          .pages_per_sm = 9,  // smallest ring in vm/device/sm90/shared.cuh
          .gb_per_s = 4570,
          .sm_gb_per_s = 60,
          .sm_gflop_per_s = 3000,
          .synchronise_us = 3.1,
          .instruction_us = 0.3};
}

Machine host_machine(uint32_t threads) {
  return {.name = "host",
          .sms = threads,
          .pages_per_sm = 64,
          .gb_per_s = 20,
          .sm_gb_per_s = 12,
          .sm_gflop_per_s = 30,
          .synchronise_us = 0.5,
          .instruction_us = 0.5};
}

}  // namespace serval
