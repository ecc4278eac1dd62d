// The simulator's parameters of a GPU. They are read from a calibration file (configs/h200.sim.json), and can
// be set one by one for what-if questions.
//
// A file is one JSON object:
//   name        the GPU
//   parameters  {NAME: {"value", "unit", "from"}}: each of sim_fields(), with its unit and the source of its
//               value
//   under_load  [{"in_flight_bytes", "gb_per_s", "round_us"}]: memory's rate and the time of a round while
//               each SM has this many bytes in flight (measured on under_load_sms SMs); ascending, the first
//               with none in flight
//   ops         {OP: {"fixed_us", "us_per_kib", "us_per_mflop", "window_bytes", "from"}}: arithmetic of the
//               instructions that do not stream weights, and the finishing of tiles; "default" is for all
//               others
//   measured    [{"model", "policy", "sequences", "context", "prompt", "us", "from"}]: measured times of
//               passes, which parameters were fitted to (benchmarks/fit_simulator.cc); may be empty.
//               "prompt", which may be left out: tokens that the pass reads after the context
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace serval {

// One point of the measurement of memory under load.
struct LoadPoint {
  double in_flight_bytes = 0;  // of each SM: bytes asked for that have not landed
  double gb_per_s = 0;         // of all SMs together, 1e9 bytes a second
  double round_us = 0;         // all SMs publish, signal a counter, wait for it, and read what was published
};

// An instruction that runs as one function of all consumer warps.
struct OpTimes {
  double fixed_us = 0;      // independent of the amount of work
  double us_per_kib = 0;    // arithmetic on bytes read from memory; of a tile: finishing written bytes
  double us_per_mflop = 0;  // arithmetic, by the operations that its cost states
  double window_bytes = 0;  // bytes in flight at a time
};

// A pass that was timed on the GPU: a decoding pass, or one that reads a prompt.
struct MeasuredToken {
  std::string model;  // a preset's name
  std::string policy;
  uint32_t sequences = 1;
  uint32_t context = 0;  // tokens in the cache of each
  uint32_t prompt = 0;   // tokens of one sequence; 0: each generates one
  uint32_t gpus = 1;     // GPUs that share the model
  double us = 0;
  std::vector<std::string> what_ifs;
};

// Times are microseconds.
struct SimParameters {
  std::string name;

  // Memory
  double gb_per_s = 0;        // of HBM, shared by all SMs: 1e9 bytes a second
  double sm_gb_per_s = 0;     // at most this much of it for one SM's pages
  double l2_gb_per_s = 0;     // for reads of data that is in L2 already
  double latency_factor = 1;  // on the time of a request when nothing else is in flight
  double under_load_sms = 0;  // SMs of the measurement below
  std::vector<LoadPoint> under_load;

  // Several GPUs
  double link_us =
      0;  // extra time of a signal to another GPU, or of one that follows data pushed to another GPU
  double link_gb_per_s = 0;  // what a GPU can push: 1e9 bytes a second

  // Synchronisation: times that grow with memory's load are shares of a round of the measurement above; the
  // others do not depend on the load
  double round_factor = 1;  // on the measured time of a round
  double notice_rounds =
      0;  // from a counter's increment to the waiting role's next step: a share of a round, …
  double notice_us = 0;    // … a time that does not depend on the load, …
  double join_us = 0;      // … and a time for each doubling of the signals waited for
  double read_rounds = 0;  // from asking for activations to the first of them

  // Shape of an SM
  double ring_pages = 0;  // number of 16 KiB pages; 0: as many as the kernel has
  double pages_in_flight_waiting =
      0;                       // pages that may be in flight before the instruction's inputs are ready …
  double pages_in_flight = 0;  // … and after that
  double record_buffers = 0;   // instructions that may be fetched and not done
  double consumer_warps = 0;
  double storer_warps = 0;
  double activation_rows = 0;  // room for rows of 1,024 columns of activations; 0: as the kernel has
  double partial_bytes = 0;    // shared memory for sums that are not stored yet
  double partial_buffers = 0;  // limit on the units whose sums are not stored yet

  // Times that the roles take
  double fetch_us = 0;            // controller: fetching an instruction
  double load_us = 0;             // loader: beginning an instruction
  double issue_us = 0;            // loader: asking for a page
  double land_us = 0;             // consumers: noticing a page that has been received
  double prepare_us = 0;          // preparers: preparing activations that are asked for together, …
  double prepare_us_per_kib = 0;  // … and more for each KiB of them
  double scale_us = 0;            // storer: each row's scale, after it has been read
  double take_us = 0;             // consumer warp: taking a page into registers
  double multiply_us = 0;         // consumer warp: multiplying a page with four rows of the pass
  double chain_us = 0;        // consumer warp, in tile order: multiplying a page, one product after the other
  double sm_page_us = 0;      // arithmetic units that all warps share: a page with four rows
  double store_us = 0;        // storer: storing a tile of results
  double next_tile_us = 0;    // storer: between two tiles of an instruction
  double last_storer_us = 0;  // storers: extra time of the last of several storers
  double signal_us = 0;       // storer: from the last store to the counter's increment

  // Times of a GEMM tile, which all consumer warps compute together
  double slab_us = 0;          // 64 columns of the tile's weights, at least
  double slab_row_us = 0;      // the same for each row of a tile of 128 outputs, if that is more
  double part_us_per_kib = 0;  // adding the sums of all parts of the columns but the last to the residual

  std::vector<OpTimes> ops;  // [kNumOpcodes]

  std::vector<MeasuredToken> measured;
};

// A number of SimParameters with a name, which files, what-ifs and fitting use.
struct SimField {
  const char* name;
  const char* unit;
  double SimParameters::*member;
  double least, most;
  bool whole;  // only whole numbers
};
std::span<const SimField> sim_fields();

// Throws Error(kRuntime), naming `name` and the field, if a field is missing, has another unit, is out of
// range, or is unknown.
SimParameters parse_sim_parameters(std::string_view json, const std::string& name);
SimParameters read_sim_parameters(const std::filesystem::path& path);
// configs/h200.sim.json, which is part of the library.
const SimParameters& h200_sim_parameters();

// The value of a field, or of OP.FIELD of an instruction. Throws as set_sim_parameter().
double sim_parameter(const SimParameters& parameters, std::string_view name);
// Sets a field, or OP.FIELD of an instruction ("attention.fixed_us"). Throws Error(kUsage) if there is no
// such field, or the value is out of its range.
void set_sim_parameter(SimParameters& parameters, std::string_view name, double value);
// Applies "NAME=VALUE" or "NAME=xFACTOR": "gb_per_s=6000", "round_factor=x0.5". Throws as
// set_sim_parameter().
void apply_what_if(SimParameters& parameters, std::string_view what_if);

}  // namespace serval
