// One SM: the roles, each going through the SM's instructions on its own.
//
// A role goes on as far as it can and returns; everything that another role may wait for wakes that role. No
// role calls a role but Sm::settle(), so roles do not nest.
#pragma once

#include <cstdint>
#include <vector>

#include "profiler/sim/consumers.h"
#include "profiler/sim/controller.h"
#include "profiler/sim/gpu.h"
#include "profiler/sim/loader.h"
#include "profiler/sim/preparer.h"
#include "profiler/sim/record.h"
#include "profiler/sim/storers.h"

namespace serval::sim {

enum class Wake : uint8_t { kController = 1, kLoader = 2, kPreparer = 4, kConsumers = 8, kStorers = 16 };

class Sm {
 public:
  Sm(Gpu& the_gpu, uint32_t sm);
  Sm(const Sm&) = delete;
  Sm& operator=(const Sm&) = delete;

  void wake(Wake role) { woken_ |= static_cast<uint8_t>(role); }
  // Lets every role go on that has been woken.
  void settle();
  void go_on(Step step, uint32_t which);
  void answer(bool page);  // of memory

  bool has(uint64_t record) const { return record < fetched; }
  Record& at(uint64_t record) { return records[record % records.size()]; }
  Page& page(uint64_t number) { return ring[number % ring.size()]; }
  uint64_t oldest_record() const;
  // The time of a step of a synchronisation now, which is this share of a round.
  double rounds(double share) const { return share * gpu.round_us(device.hbm.queued_us()); }
  bool done() const { return controller.ended() && oldest_record() == fetched; }

  Gpu& gpu;
  const uint32_t index;  // SMs are numbered device after device
  const uint32_t rank;   // its device's number
  Device& device;
  uint64_t fetched = 0;  // records
  std::vector<Record> records;
  std::vector<Page> ring;
  Units units;
  Controller controller;
  Loader loader;
  Preparer preparer;
  Consumers consumers;
  Storers storers;

 private:
  uint8_t woken_ = static_cast<uint8_t>(Wake::kController);
};

// A time of the trace.
void note(Record& record, EventKind kind, double us);

}  // namespace serval::sim
