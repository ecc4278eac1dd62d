// The persistent kernel: one thread block an SM; each warp keeps its role until the launch's last pass is
// over.
#pragma once

#include <cstdint>
#include <cstring>

#include "vm/device/controller.cuh"
#include "vm/device/op.cuh"
#include "vm/device/recorder.cuh"
#include "vm/device/sm90/roles.cuh"
#include "vm/device/watcher.cuh"

namespace serval::device {

// The streams of an instruction set.
template <class... Types>
struct StreamList {};

// An instruction set as a type: its streams, then its operand structs in the order of their opcodes.
template <class Streams, class... Ops>
struct IsaList;

template <class... StreamTypes, class... Ops>
struct IsaList<StreamList<StreamTypes...>, Ops...> {
  static constexpr uint32_t kNumOps = sizeof...(Ops);
  static_assert((... && (sizeof(typename StreamTypes::Plan) <= kStreamPlanBytes)));

  // Number of the stream that runs an instruction: the first that can.
  template <class Op>
  static constexpr uint32_t stream_of() {
    uint32_t stream = kNoStream, at = kNoStream;
    (void)((++at, Streams<StreamTypes, Op> ? (stream = at, true) : false) || ...);
    return stream;
  }
  template <class Op>
  static constexpr bool kStreams = stream_of<Op>() != kNoStream;

  // Calls visit.operator()<Op>(op) for the record's instruction.
  template <class Visit>
  static __device__ __forceinline__ void dispatch(const Instruction& record, Visit&& visit) {
    uint32_t opcode = 0;
    (void)((record.opcode == opcode++ ? (visit(operands<Ops>(record)), true) : false) || ...);
  }
  // Calls visit.operator()<Stream>(plan) for the stream of a streaming record.
  template <class Visit>
  static __device__ __forceinline__ void with_stream(const RecordBuffer& buffer, Visit&& visit) {
    constexpr bool kOnlyOne = sizeof...(StreamTypes) == 1;
    uint32_t stream = kNoStream;
    (void)((kOnlyOne || buffer.stream == ++stream
                ? (visit.template operator()<StreamTypes>(plan<StreamTypes>(buffer)), true)
                : false) ||
           ...);
  }
  // Fills in the fields that roles read besides the record, including a streaming instruction's plan.
  // `program`: the program's shape. `before`: the buffer of the SM's previous record.
  template <class Config>
  static __device__ void make_plan(const Launch& launch, const ProgramShape& program,
                                   const RecordBuffer& before, RecordBuffer& buffer) {
    bool starts_early = false, before_gate = false;
    uint32_t stream = kNoStream;
    Shapes shapes;
    dispatch(buffer.record, [&]<class Op>(const Op& op) {
      if constexpr (kStreams<Op>) {
        stream = stream_of<Op>();
        (set_shape<StreamTypes>(shapes, buffer, op, program), ...);
      } else {
        starts_early = DeviceOp<Op>::kStartsEarly;
        before_gate = DeviceOp<Op>::kStartsBeforeGate;
      }
    });
    buffer.stream = stream;
    // The pass's rows arrive with its gate. If consumers do not yet know that the gate is open, the record
    // must not start early.
    const bool gate_seen = buffer.begins_pass == 0 && before.passes_gate_on != 0;
    buffer.starts_early = before_gate || (starts_early && gate_seen) ? 1 : 0;
    buffer.passes_gate_on = 1;
    if (stream == kNoStream) return;
    with_stream(buffer, [&]<class Stream>(const typename Stream::Plan&) {
      auto& plan = *reinterpret_cast<typename Stream::Plan*>(buffer.plan);
      plan = Stream::template plan<Config>(launch, static_cast<ShapeOf<Stream>&>(shapes).shape);
      buffer.passes_gate_on = gate_seen || Stream::has_panels(plan) ? 1 : 0;
    });
  }
  template <class Op>
  static __device__ __forceinline__ const Op& operands(const Instruction& record) {
    return *reinterpret_cast<const Op*>(record.operands.data());
  }
  template <class Config>
  static __device__ bool in_range(const Instruction& record, const ProgramShape& program) {
    bool good = false;
    dispatch(record, [&]<class Op>(const Op& op) {
      if constexpr (kStreams<Op>) {
        uint32_t stream = kNoStream;
        (void)((++stream == stream_of<Op>() ? (good = in_range_of<Config, StreamTypes>(op, program), true)
                                            : false) ||
               ...);
      } else {
        good = in_range_for<Config, DeviceOp<Op>>(op, program);
      }
    });
    return good;
  }
  static __device__ uint32_t num_tensors(uint32_t opcode) {
    uint32_t i = 0, found = 0;
    (void)((opcode == i++ ? (found = tensor_operands<Ops>(), true) : false) || ...);
    return found;
  }

 private:
  template <class Config, class Stream, class Op>
  static __device__ __forceinline__ bool in_range_of(const Op& op, const ProgramShape& program) {
    if constexpr (Streams<Stream, Op>)
      return in_range_for<Config, typename Stream::template Op<Op>>(op, program);
    return false;
  }
  // A record's shape in each stream that can run it.
  template <class Stream>
  struct ShapeOf {
    typename Stream::Shape shape{};
  };
  struct Shapes : ShapeOf<StreamTypes>... {};
  template <class Stream, class Op>
  static __device__ __forceinline__ void set_shape(Shapes& shapes, const RecordBuffer& buffer, const Op& op,
                                                   const ProgramShape& program) {
    if constexpr (Streams<Stream, Op>)
      static_cast<ShapeOf<Stream>&>(shapes).shape = Stream::template Op<Op>::shape(buffer, op, program);
  }

  template <class Stream>
  static __device__ __forceinline__ const typename Stream::Plan& plan(const RecordBuffer& buffer) {
    return *reinterpret_cast<const typename Stream::Plan*>(buffer.plan);
  }
};

// Each role puts its work on a record between these two. (They take no callback: the consumers' would not be
// inlined, and ptxas serialises wgmma products in a kernel that calls functions.)
template <class Role>
__device__ __forceinline__ void acquire_record(Role& role) {
  auto& s = role.s;
  const uint32_t at = role.record % kRecordBuffers;
  wait_phase(&s.record_ready[at], role.record / kRecordBuffers & 1, &s.exit);
  role.buffer = &s.records[at];
}
template <class Role>
__device__ __forceinline__ void release_record(Role& role) {
  __syncwarp();
  if (role.lane == 0) ptx::mbarrier_arrive(&role.s.record_free[role.record % kRecordBuffers]);
}

__device__ __forceinline__ void wait_for_exit(const ExitFlag* exit) {
  for (;;) exit_if_requested(exit);
}

template <class Isa, class Config, template <class> class Recorder>
__device__ __forceinline__ void run_loader(Shared<Config>& s, const Launch& launch, uint32_t lane) {
  if (lane != 0) ptx::exit_thread();  // first of all: exit_last() waits for these lanes
  Recorded<LoaderRole<Config>, Recorder> role{{.s = s, .launch = launch}};
  for (;; ++role.record) {
    const uint32_t n = role.record, at = n % kRecordBuffers;
    wait_phase(&s.record_ready[at], n / kRecordBuffers & 1, &s.exit);
    role.buffer = &s.records[at];
    if (role.buffer->ends_launch == 0 && role.buffer->stream != kNoStream) {
      role.recorder.stamp(n, EventKind::kLoadBegin);
      Isa::with_stream(*role.buffer, [&]<class Stream>(const typename Stream::Plan& plan) {
        Stream::load(role, plan, [&](uint32_t unit, uint32_t matrix) {
          typename Stream::Pages pages{};
          Isa::dispatch(role.buffer->record, [&]<class Op>(const Op& op) {
            if constexpr (Streams<Stream, Op>) pages = Stream::pages_of(role, op, unit, matrix);
          });
          return pages;
        });
      });
      role.recorder.loaded(n);
    }
    ptx::mbarrier_arrive(&s.record_free[at]);
  }
}

// The preparer's work for a group instruction: it claims scratch memory, waits for the inputs, and issues
// bulk copies if the instruction loads its inputs that way.
template <class Isa, class Role>
__device__ __forceinline__ void prepare_group(Role& role) {
  role.claim_scratch();
  bool prepared = false;
  Isa::dispatch(role.buffer->record, [&]<class Op>(const Op& op) {
    if constexpr (!Isa::template kStreams<Op> && requires { DeviceOp<Op>::prepare(role, op); }) {
      DeviceOp<Op>::prepare(role, op);
      prepared = true;
    }
  });
  if (prepared) return;
  role.wait_inputs(role.recorder);
  role.publish_scratch();
}

template <class Isa, class Config, template <class> class Recorder>
__device__ __forceinline__ void run_preparer(Shared<Config>& s, const Launch& launch, uint32_t lane) {
  Recorded<PreparerRole<Config>, Recorder> role{{.s = s, .launch = launch, .lane = lane}};
  for (;; ++role.record) {
    acquire_record(role);
    if (role.buffer->ends_launch != 0) {
      role.pass_gate();
    } else if (role.buffer->stream != kNoStream) {
      Isa::with_stream(*role.buffer,
                       [&]<class Stream>(const typename Stream::Plan& plan) { Stream::prepare(role, plan); });
    } else {
      prepare_group<Isa>(role);
    }
    if constexpr (Recorder<Config>::kOn) role.stamp_inputs(role.recorder);
    release_record(role);
  }
}

// Calls fn(signal) for every 32nd of the record's signals, beginning at `first`.
template <class Role, class Fn>
__device__ __forceinline__ void for_signals(const Role& role, uint32_t first, Fn&& fn) {
  const RecordBuffer& buffer = *role.buffer;
  for (uint32_t n = first; n < buffer.record.signal_count; n += kWarpThreads)
    fn(n < kFetchedSignals ? buffer.signals[n] : role.launch.program.signals[buffer.record.signal_begin + n]);
}
// A signal's destination, resolved in advance so that nothing delays the signals after a record's last store.
template <class Config>
struct ResolvedSignal {
  uint32_t* counter;  // null: none
  uint32_t increment;
  bool system;  // only where there are peers

  __device__ __forceinline__ ResolvedSignal(const Launch& launch, const Signal& signal)
      : increment(signal.increment) {
    if constexpr (Config::kHasPeers) {
      const SignalTarget to{signal.counter};
      counter = launch.peers.counters[to.device()] + to.counter() * kCounterStride;
      system = to.system();
    } else {
      counter = counter_of(launch.program, signal.counter);
    }
  }
  __device__ __forceinline__ void send() const {
    if (Config::kHasPeers && system) return ptx::add_release_system(counter, increment);
    ptx::add_release(counter, increment);
  }
};
// The signal that this lane will send.
template <class Role>
__device__ __forceinline__ ResolvedSignal<typename Role::Config> lane_signal(const Role& role) {
  ResolvedSignal<typename Role::Config> signal(role.launch,
                                               role.buffer->signals[role.lane % kFetchedSignals]);
  if (role.lane >= min(uint32_t{role.buffer->record.signal_count}, kFetchedSignals)) signal.counter = nullptr;
  return signal;
}
// Sends the record's signals. They follow the stores of all warps that the caller is ordered after.
template <class Role>
__device__ __forceinline__ void add_signals(Role& role, const ResolvedSignal<typename Role::Config>& mine) {
  __syncwarp();
  [[maybe_unused]] uint32_t ticks = 0;
  if constexpr (Role::Recorder::kOn) ticks = ptx::clock_ticks();
  if (mine.counter != nullptr) mine.send();
  if (role.buffer->record.signal_count > kFetchedSignals) {
    for_signals(role, kFetchedSignals + role.lane, [&](const Signal& signal) {
      ResolvedSignal<typename Role::Config>(role.launch, signal).send();
    });
  }
  __syncwarp();
  if constexpr (Role::Recorder::kOn) {
    if (role.lane == 0) role.recorder.stamp_at(role.record, EventKind::kSignalled, ticks);
  }
}

// Calls visit(op) for the record's instruction, which runs on `Stream`.
template <class Isa, class Stream, class Role, class Visit>
__device__ __forceinline__ void with_streaming_op(const Role& role, Visit&& visit) {
  Isa::dispatch(role.buffer->record, [&]<class Op>(const Op& op) {
    if constexpr (Streams<Stream, Op>) visit(op);
  });
}

// Ends a group instruction: the last of the consumer warps signals.
template <class Role>
__device__ __forceinline__ void signal_as_group(Role& role) {
  const auto signal = lane_signal(role);
  if (role.last_to_arrive(role.next_unit)) {
    if (role.lane == 0) role.recorder.stamp(role.record, EventKind::kComputeEnd);
    role.wait_inputs();  // a record without work has not waited yet
    add_signals(role, signal);
    role.arrive_unit(role.next_unit);
  }
  ++role.next_unit;
}

// A group instruction: all consumer threads run it together, with the activations' memory as scratch.
template <class Isa, class Role>
__device__ __forceinline__ void consume_group(Role& role) {
  auto& s = role.s;
  role.wait_scratch();
  role.wait_partial_buffer(role.next_unit);
  if (role.buffer->starts_early == 0) role.wait_inputs();
  [[maybe_unused]] uint32_t parity = role.parity;
  Group group{.thread = role.warp * kWarpThreads + role.lane,
              .warp = role.warp,
              .lane = role.lane,
              .scratch = s.activations,
              .operands = nullptr,
              .tensors = role.launch.program.tensors,
              .shape = s.shape,
              .rows = Role::Config::kSharedRows == 0 ? role.launch.program.rows : s.rows,
              .inputs = role.inputs_ready(),
              .inputs_parity = role.inputs_parity(),
              .barrier = &s.consumer_barrier,
              .barrier_parity = Role::Config::kMultipliesTiles ? &parity : &role.parity,
              .exit = &s.exit};
  if (role.warp == 0 && role.lane == 0) role.recorder.stamp(role.record, EventKind::kComputeBegin);
  role.save_counts();
  Isa::dispatch(role.buffer->record, [&]<class Op>(const Op&) {
    if constexpr (!Isa::template kStreams<Op>) {
      role.find_buffer();
      group.operands = role.buffer->operands;
      run_group<typename Role::Config>(Isa::template operands<Op>(role.buffer->record), group);
    }
  });
  role.restore_counts();
  if constexpr (Role::Config::kMultipliesTiles) role.parity = parity;
  signal_as_group(role);
  role.wait_panel(role.next_panel);  // it has landed; but every phase must be waited for once
  role.release_scratch();
}

template <class Isa, class Config, template <class> class Recorder>
__device__ __forceinline__ void run_consumer(Shared<Config>& s, const Launch& launch) {
  Recorded<ConsumerRole<Config>, Recorder> role{{.s = s, .launch = launch}};
  for (;; ++role.record) {
    role.find_thread();
    acquire_record(role);
    if (Config::uniform(role.buffer->ends_launch) != 0) {
      wait_for_exit(&s.exit);
    } else if (Config::uniform(role.buffer->stream) != kNoStream) {
      Isa::with_stream(*role.buffer, [&]<class Stream>(const typename Stream::Plan& plan) {
        Stream::consume(
            role, plan, [&](auto&& visit) { with_streaming_op<Isa, Stream>(role, visit); },
            [&] { role.arrive_unit(role.next_unit++); });
      });
    } else {
      consume_group<Isa>(role);
    }
    release_record(role);
  }
}

// The record's signals have been sent. If it signalled the gate, publishes the end of the pass to the host.
template <class Role>
__device__ __forceinline__ void end_record(const Role& role) {
  for_signals(role, role.lane, [&](const Signal& signal) {
    if (signal.counter == role.launch.program.gate_signal)
      ptx::store_release_system(role.launch.published, role.buffer->pass + 1);
  });
  if (role.lane == 0) {
    role.s.storers_done[role.record % kRecordBuffers] = 0;
    ptx::store_relaxed(role.launch.progress + blockIdx.x, role.record + 1);
    ptx::shared_add_release(&role.s.records_stored, 1);
  }
}

template <class Role>
__device__ __forceinline__ void stamp_stores(Role& role) {
  if constexpr (Role::Recorder::kOn) {
    if (role.lane != 0) return;
    role.recorder.stamp_at(role.record, EventKind::kStoreBegin, role.recorder.noted_ticks());
    role.recorder.stamp_at(role.record, EventKind::kStored, role.recorder.end_ticks());
  }
}

// Returns true for the warp that has signalled: the record's only storer, or the last of several.
template <class Isa, class Stream, class Role>
__device__ __forceinline__ bool store_stream(Role& role, const typename Stream::Plan& plan,
                                             uint32_t storers) {
  const auto signal = lane_signal(role);
  const auto announce = [&] {
    add_signals(role, signal);
    stamp_stores(role);
  };
  Stream::store(
      role, plan, [&](auto&& visit) { with_streaming_op<Isa, Stream>(role, visit); },
      [&] {
        role.recorder.note_end();
        if (storers == 1) announce();
      });
  if (storers == 1) return true;
  if (!role.last_to_store(storers)) return false;
  announce();
  return true;
}
// After a group instruction, whose consumers have signalled: updates the counts of units.
template <class Role>
__device__ __forceinline__ void follow_group(Role& role) {
  role.wait_partial_buffers(1);
  role.wait_units(0, true, kGroupArrivals);
  role.tile_stored(0, role.lane == 0, 1, 1);
  ++role.next_unit;
}

// Consumers have stored the record's results themselves. A storer signals, so that consumers begin their next
// tile while the stores are acknowledged.
template <class Role>
__device__ __forceinline__ void signal_for_consumers(Role& role) {
  if (role.storer_rank != 0) return role.skip_units(1);
  const auto signal = lane_signal(role);
  role.wait_inputs();  // a record without work has not waited yet
  role.wait_partial_buffers(1);
  role.wait_units(0, true, kConsumerWarps);
  add_signals(role, signal);
  role.tile_stored(0, role.lane == 0, 1, 1);
  ++role.next_unit;
  end_record(role);
}

template <class Role>
__device__ __forceinline__ void store_group(Role& role) {
  if (role.storer_rank == 0) {
    follow_group(role);
    end_record(role);
  } else {
    role.skip_units(1);
  }
}

template <class Isa, class Config, template <class> class Recorder>
__device__ __forceinline__ void run_storer(Shared<Config>& s, const Launch& launch) {
  Recorded<StorerRole<Config>, Recorder> role{{.s = s, .launch = launch}};
  for (;; ++role.record) {
    role.lane = ptx::thread_index() % kWarpThreads;
    role.warp = ptx::thread_index() / kWarpThreads - kFirstStorerWarp;
    role.storer_rank = (role.warp - role.record) % kStorerWarps;
    acquire_record(role);
    if (role.buffer->ends_launch != 0) wait_for_exit(&s.exit);
    if (role.buffer->stream != kNoStream) {
      Isa::with_stream(*role.buffer, [&]<class Stream>(const typename Stream::Plan& plan) {
        if constexpr (Stream::kConsumersStore) {
          Stream::look_up(role, plan, [&](auto&& visit) { with_streaming_op<Isa, Stream>(role, visit); });
          signal_for_consumers(role);
        } else {
          const uint32_t storers = Stream::template storers<Config>(plan);
          if (role.storer_rank >= storers) {
            role.skip_units(Stream::units(plan));
          } else if (store_stream<Isa, Stream>(role, plan, storers)) {
            end_record(role);
          }
        }
      });
    } else {
      store_group(role);
    }
    release_record(role);
  }
}

template <class Config>
__device__ __forceinline__ void init_shared(Shared<Config>& s, const Launch& launch) {
  if (threadIdx.x == 0) {
    s.shape = launch.program.shape;
    for (uint32_t i = 0; i < kRecordBuffers; ++i) {
      ptx::mbarrier_init(&s.record_ready[i], 1);
      ptx::mbarrier_init(&s.record_free[i], kRecordReaders);
      ptx::mbarrier_init(&s.inputs_ready[i], 1);
      s.storers_done[i] = 0;
    }
    for (uint64_t& panel : s.panel_landed) ptx::mbarrier_init(&panel, 1);
    if constexpr (Config::kMultipliesTiles)
      for (uint64_t& panel : s.panel_free) ptx::mbarrier_init(&panel, kConsumerWarps);
    for (uint32_t i = 0; i < Config::kRingPages; ++i) {
      ptx::mbarrier_init(&s.page_landed[i], 1);
      ptx::mbarrier_init(&s.page_free[i], Config::kPageReaders);
    }
    ptx::mbarrier_init(&s.consumer_barrier, kConsumerWarps);
    for (uint64_t& barrier : s.warpgroup_barrier) ptx::mbarrier_init(&barrier, kWarpgroupWarps);
    if constexpr (Config::kMultipliesTiles)
      for (JointStart& meeting : s.products) meeting.init();
    for (uint64_t& barrier : s.tokens_ready) ptx::mbarrier_init(&barrier, kStorerWarps);
    ptx::fence_mbarrier_init();
    s.pages_issued = s.panels_issued = s.records_waited = s.records_stored = 0;
    s.exit.set = 0;
  }
  if (threadIdx.x < kStorerWarps) s.units_stored[threadIdx.x] = 0;
  if (threadIdx.x < kConsumerWarps) s.panels_released[threadIdx.x] = s.tiles_used[threadIdx.x] = 0;
  if (threadIdx.x < kPartialBuffers) s.unit_arrivals[threadIdx.x] = s.tiles_stored[threadIdx.x] = 0;
}

template <class Isa, class Config, template <class> class Recorder>
__global__ void __launch_bounds__(kBlockThreads, 1) interpret(const __grid_constant__ Launch launch) {
  extern __shared__ __align__(kScratchAlignment) std::byte memory[];
  auto& s = *reinterpret_cast<Shared<Config>*>(memory);
  if constexpr (Recorder<Config>::kOn) Recorder<Config>::init(s);
  init_shared(s, launch);
  __syncthreads();
  const uint32_t warp = threadIdx.x / kWarpThreads, lane = threadIdx.x % kWarpThreads;
  if (warp >= kFirstConsumerWarp) {
    ptx::set_max_registers_up<Config::kConsumerRegisters>();
    run_consumer<Isa, Config, Recorder>(s, launch);
  } else if (warp >= kFirstStorerWarp) {
    ptx::set_max_registers_down<Config::kStorerRegisters>();
    run_storer<Isa, Config, Recorder>(s, launch);
  } else {
    ptx::set_max_registers_down<kServiceRegisters>();
    if (warp == kControllerWarp) {
      Controller<Isa, Config, Recorder<Config>>(s, launch, lane).run();
    } else if (warp == kLoaderWarp) {
      run_loader<Isa, Config, Recorder>(s, launch, lane);
    } else if (warp == kPreparerWarp) {
      run_preparer<Isa, Config, Recorder>(s, launch, lane);
    } else {
      if constexpr (Recorder<Config>::kOn) Watcher<Config>(s, launch, lane).run();
      exit_last(s, lane);
    }
  }
}

}  // namespace serval::device
