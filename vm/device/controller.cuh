// The controller warp: fetches records ahead of the other roles, checks them, and watches over the launch.
#pragma once

#include "vm/device/architecture.cuh"
#include "vm/device/recorder.cuh"

namespace serval::device {

// Isa: the instruction set as a type (vm/device/sm90/kernel.cuh).
template <class Isa, class Config, class Recorder>
class Controller {
 public:
  __device__ Controller(Shared<Config>& s, const Launch& launch, uint32_t lane)
      : s_(s), launch_(launch), lane_(lane), last_move_ns_(ptx::global_nanoseconds()), recorder_(s) {}

  __device__ void run() {
    const BoundProgram& program = launch_.program;
    const uint32_t queue = program.global_queue != 0 ? 0 : blockIdx.x;
    begin_ = program.queue_begin[queue];
    length_ = program.queue_begin[queue + 1] - begin_;
    uint32_t last_pass = ~0u;
    if (length_ == 0) exit_block();
    for (uint32_t n = 0;; ++n) {
      const uint32_t ticket = take_ticket(n);
      const uint32_t pass = ticket / length_;
      RecordBuffer& buffer = free_buffer();
      if (pass >= launch_.passes) end_launch(buffer, pass);
      fetch(buffer, begin_ + ticket % length_, pass, pass != last_pass);
      last_pass = pass;
    }
  }

 private:
  // Position in the queue, counted through all passes.
  __device__ uint32_t take_ticket(uint32_t n) {
    if (launch_.program.global_queue == 0) return n;
    uint32_t ticket = 0;
    if (lane_ == 0) ticket = atomicAdd(launch_.program.ticket, 1);
    return __shfl_sync(~0u, ticket, 0);
  }

  __device__ RecordBuffer& free_buffer() {
    const uint32_t at = fetched_ % kRecordBuffers;
    if (fetched_ >= kRecordBuffers) {
      const uint32_t parity = (fetched_ / kRecordBuffers - 1) & 1;
      while (!ptx::mbarrier_try_wait(&records_done()[at], parity)) watch();
    }
    return s_.records[at];
  }

  // If events are recorded, the watcher reads a record after all roles are done with it.
  __device__ uint64_t* records_done() const {
    if constexpr (Recorder::kOn) return Recorder::memory(s_).record_written;
    return s_.record_free;
  }

  __device__ void publish_record() {
    __syncwarp();
    if (lane_ == 0) ptx::mbarrier_arrive(&s_.record_ready[fetched_ % kRecordBuffers]);
    ++fetched_;
  }

  // The last buffer of a launch holds no record: roles wait at its gate and leave.
  __device__ void end_launch(RecordBuffer& buffer, uint32_t pass) {
    if (lane_ == 0) {
      buffer.pass = pass;
      buffer.begins_pass = 1;
      buffer.ends_launch = 1;
    }
    publish_record();
    for (;;) watch();
  }

  __device__ void fetch(RecordBuffer& buffer, uint32_t pc, uint32_t pass, bool begins_pass) {
    const BoundProgram& program = launch_.program;
    begin_recording(pc, pass);
    constexpr uint32_t kPieces = sizeof(Instruction) / sizeof(uint4);
    if (lane_ < kPieces) {
      reinterpret_cast<uint4*>(&buffer.record)[lane_] =
          ptx::load_constant(reinterpret_cast<const uint4*>(program.instructions + pc) + lane_);
    }
    if (lane_ == 0) {
      buffer.pc = pc;
      buffer.pass = pass;
      buffer.begins_pass = begins_pass ? 1 : 0;
      buffer.ends_launch = 0;
    }
    __syncwarp();
    FaultKind kind = FaultKind::kNone;
    if (!record_in_range(buffer.record) || !fetch_side_tables(buffer)) {
      kind = FaultKind::kBadRecord;
    } else if (!Isa::template in_range<Config>(buffer.record, s_.shape)) {
      kind = FaultKind::kBadOperands;
    }
    if (kind != FaultKind::kNone) fault(buffer, kind);
    __syncwarp();  // the plan reads what all lanes have loaded
    if (lane_ == 0) {
      const RecordBuffer& before = s_.records[(fetched_ - 1) % kRecordBuffers];
      Isa::template make_plan<Config>(launch_, s_.shape, before, buffer);
      recorder_.stamp(fetched_, EventKind::kFetched);
    }
    publish_record();
  }

  __device__ void begin_recording(uint32_t pc, uint32_t pass) {
    if constexpr (Recorder::kOn) {
      if (lane_ != 0) return;
      RecordTimes& times = recorder_.times(fetched_);
      times.instruction = pc;
      times.pass = pass;
      recorder_.stamp(fetched_, EventKind::kFetchBegin);
    }
  }

  __device__ bool record_in_range(const Instruction& record) const {
    const BoundProgram& program = launch_.program;
    if (record.opcode >= Isa::kNumOps) return false;
    if (uint64_t{record.wait_begin} + record.wait_count > program.num_waits) return false;
    return uint64_t{record.signal_begin} + record.signal_count <= program.num_signals;
  }

  // Loads tensors, waits and signals: one entry of each a lane.
  __device__ bool fetch_side_tables(RecordBuffer& buffer) {
    const BoundProgram& program = launch_.program;
    const Instruction& record = buffer.record;
    bool good = true;
    if (lane_ < Isa::num_tensors(record.opcode)) {
      const uint32_t id = reinterpret_cast<const uint32_t*>(record.operands.data())[lane_];
      good = id < program.num_tensors;
      if (good) buffer.operands[lane_] = program.tensors[id];
    }
    if (lane_ < record.wait_count && lane_ < kFetchedWaits) {
      const BoundWait wait = program.waits[record.wait_begin + lane_];
      good = good && wait.counter < program.num_counters;
      buffer.waits[lane_] = {wait.counter, wait.target(launch_.epoch + buffer.pass)};
    }
    if (lane_ < record.signal_count && lane_ < kFetchedSignals) {
      buffer.signals[lane_] = program.signals[record.signal_begin + lane_];
      good = good && counter_of_signal(buffer.signals[lane_]) < program.num_counters;
    }
    return __all_sync(~0u, good);
  }

  static __device__ uint32_t counter_of_signal(const Signal& signal) {
    return Config::kHasPeers ? SignalTarget{signal.counter}.counter() : signal.counter;
  }

  // The controller's work while it waits: it copies the host's stop word to GPU memory, leaves if the block
  // does, and gives up if no SM has made progress for too long.
  __device__ void watch() {
    exit_if_requested(&s_.exit);
    constexpr uint32_t kPollsBetweenChecks = 64;
    if (++polls_ % kPollsBetweenChecks != 0) return;
    if ((Config::kHasPeers ? ptx::load_relaxed_system(launch_.abort) : ptx::load_relaxed(launch_.abort)) !=
        0) {
      record_fault(current_buffer(), FaultKind::kNoProgress);
      exit_block();
    }
    if (blockIdx.x == 0 && lane_ == 0) copy_stop_word();
    const uint64_t now = ptx::global_nanoseconds();
    if (now - last_move_ns_ < launch_.stall_ns) return;
    const uint32_t moved = progress_everywhere();
    if (moved == last_progress_) {
      fault(current_buffer(), FaultKind::kNoProgress);
    }
    last_progress_ = moved;
    last_move_ns_ = now;
  }

  __device__ void copy_stop_word() {
    if (*static_cast<const volatile uint32_t*>(launch_.host_stop) != 0) {
      ptx::store_relaxed(launch_.host_stop_mirror, 1u);
    }
  }

  __device__ uint32_t progress_everywhere() const {
    uint32_t sum = 0;
    for (uint32_t sm = lane_; sm < gridDim.x; sm += kWarpThreads) {
      sum += ptx::load_relaxed(launch_.progress + sm);
    }
    return __reduce_add_sync(~0u, sum);
  }

  // The record that the slowest role is at, or a later one that was done earlier because it had nothing to
  // store.
  __device__ const RecordBuffer& current_buffer() const {
    return s_.records[ptx::shared_load_acquire(&s_.records_stored) % kRecordBuffers];
  }

  __device__ void record_fault(const RecordBuffer& buffer, FaultKind kind) {
    if (lane_ != 0) return;
    FaultRecord f{};
    f.kind = kind;
    f.pass = buffer.pass;
    f.pc = buffer.pc;
    f.opcode = buffer.record.opcode;
    f.role = Role::kController;
    if (kind == FaultKind::kNoProgress) find_blocked_role(buffer, f);
    launch_.faults[blockIdx.x] = f;
    __threadfence_system();
  }

  // Finds out whether the SM waits for a counter or for one of its own warps.
  __device__ void find_blocked_role(const RecordBuffer& buffer, FaultRecord& f) const {
    const uint32_t at = ptx::shared_load_acquire(&s_.records_stored);
    if (reached(ptx::shared_load_acquire(&s_.records_waited), at + 1)) {
      f.role = Role::kConsumer;
      return;
    }
    f.role = Role::kPreparer;
    const uint32_t epoch = launch_.epoch + buffer.pass;
    if (buffer.begins_pass != 0 && buffer.pass > 0) {
      const BoundProgram& program = launch_.program;
      if (note_counter(f, program.gate_counter, epoch * program.gate_per_pass)) return;
    }
    if (buffer.ends_launch != 0) return;
    for (uint32_t w = 0; w < buffer.record.wait_count && w < kFetchedWaits; ++w) {
      if (note_counter(f, buffer.waits[w].counter, buffer.waits[w].target)) return;
    }
  }
  __device__ bool note_counter(FaultRecord& f, uint32_t counter, uint32_t need) const {
    const uint32_t have = load_counter<Config>(counter_of(launch_.program, counter));
    if (reached(have, need)) return false;
    f.on_counter = 1;
    f.counter = counter;
    f.have = have;
    f.need = need;
    return true;
  }

  __device__ void fault(const RecordBuffer& buffer, FaultKind kind) {
    record_fault(buffer, kind);
    __syncwarp();
    if (lane_ == 0) {
      give_up_everywhere();
      ptx::store_release_system(launch_.host_aborted, 1);
    }
    exit_block();
  }
  __device__ void give_up_everywhere() const {
    if constexpr (Config::kHasPeers) {
      for (uint32_t k = 0; k < launch_.peers.count; ++k)
        ptx::store_relaxed_system(launch_.peers.aborts[k], 1);
    } else {
      atomicExch(launch_.abort, 1);
    }
  }

  // Every warp of the block leaves at its next wait.
  __device__ void exit_block() {
    request_exit(&s_.exit);
    ptx::exit_thread();
  }

  Shared<Config>& s_;
  const Launch& launch_;
  const uint32_t lane_;
  uint32_t begin_ = 0;
  uint32_t length_ = 0;
  uint32_t fetched_ = 0;
  uint32_t polls_ = 0;
  uint32_t last_progress_ = 0;
  uint64_t last_move_ns_;
  [[no_unique_address]] Recorder recorder_;
};

}  // namespace serval::device
