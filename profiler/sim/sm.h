// One SM and its roles. Each role goes through the SM's instructions on its own.
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
  // Runs all roles that have been woken, until none is.
  void settle();
  void dispatch(Step step, uint32_t which);
  void answer(bool page);  // memory has answered the SM's oldest request

  bool has(uint64_t record) const { return record < fetched; }
  Record& at(uint64_t record) { return records[record % records.size()]; }
  Page& page(uint64_t number) { return ring[number % ring.size()]; }
  uint64_t oldest_record() const;
  // The time of a step of a synchronisation that takes this share of a round, at the present load.
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

// Sets a time of the record's trace.
void note(Record& record, EventKind kind, double us);

}  // namespace serval::sim
