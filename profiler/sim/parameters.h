// The simulator's parameters of a GPU: a calibration file (configs/h200.sim.json) read into numbers that can
// also be set one by one, to ask what if.
//
// A file is one JSON object:
//   name        the GPU
//   parameters  {NAME: {"value", "unit", "from"}}: each of sim_fields(), with its unit, and where its value
//               comes from
//   under_load  [{"in_flight_bytes", "gb_per_s", "round_us"}]: how memory answers the more, the more bytes
//   each
//               SM has in flight (a measurement on under_load_sms SMs); ascending, the first with none in
//               flight
//   ops         {OP: {"fixed_us", "us_per_kib", "us_per_mflop", "window_bytes", "from"}}: arithmetic of the
//               instructions that do not stream weights, and what finishes a tile; "default" is for those
//               that are not named
//   measured    [{"model", "policy", "sequences", "context", "prompt", "us", "from"}]: what passes took, the
//               figures that fitted parameters were fitted to (benchmarks/fit_simulator.cc); may be empty.
//               "prompt", which may be left out: tokens that the pass reads behind the context
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace serval {

// One line of the measurement that latency under load comes from.
struct LoadPoint {
  double in_flight_bytes = 0;  // of each SM: asked for and not landed
  double gb_per_s = 0;         // of all SMs together, 1e9 bytes a second
  double round_us = 0;         // all SMs publish, signal a counter, wait for it, and read what was published
};

// An instruction that runs as one function of all consumer warps.
struct OpTimes {
  double fixed_us = 0;      // however little there is to do
  double us_per_kib = 0;    // arithmetic on what it reads from memory; of a tile: finishing what it writes
  double us_per_mflop = 0;  // arithmetic that its cost states
  double window_bytes = 0;  // that it has in flight at a time
};

// A pass, timed on the GPU: of decoding, or one that reads a prompt.
struct MeasuredToken {
  std::string model;  // a preset's name
  std::string policy;
  uint32_t sequences = 1;
  uint32_t context = 0;  // tokens in the cache of each
  uint32_t prompt = 0;   // tokens of one sequence; 0: each generates one
  uint32_t gpus = 1;     // that share the model
  double us = 0;
  std::vector<std::string> what_ifs;
};

// Times are microseconds.
struct SimParameters {
  std::string name;

  // Memory
  double gb_per_s = 0;        // of HBM, shared by all SMs: 1e9 bytes a second
  double sm_gb_per_s = 0;     // of it, that one SM's pages get at most
  double l2_gb_per_s = 0;     // of what is in L2 already, likewise
  double latency_factor = 1;  // of the time that memory takes when nothing else is in flight
  double under_load_sms = 0;  // SMs of the measurement below
  std::vector<LoadPoint> under_load;

  // Several GPUs
  double link_us = 0;  // that a signal is later on another GPU, or where it releases what is pushed to one
  double link_gb_per_s = 0;  // that a GPU pushes, at most: 1e9 bytes a second

  // Synchronisation: shares of a round of the measurement above, which slow down as memory fills, and what
  // takes the same under any load
  double round_factor = 1;  // of a round's time as it was measured
  double notice_rounds = 0;  // the counter's increment to the waiting role's next step: a share of a round, …
  double notice_us = 0;      // … what it takes under any load, …
  double join_us = 0;      // … and, for each doubling of the signals waited for, that the slowest is later
  double read_rounds = 0;  // asking for activations to having the first of them

  // Shape of an SM
  double ring_pages = 0;  // pages of 16 KiB; 0: the kernel's
  double pages_in_flight_waiting =
      0;                       // pages that may be in flight while the instruction's inputs are missing …
  double pages_in_flight = 0;  // … and once they are there
  double record_buffers = 0;   // instructions that are fetched and not done
  double consumer_warps = 0;
  double storer_warps = 0;
  double activation_rows = 0;  // rows of 1,024 columns of activations that there is room for; 0: the kernel's
  double partial_bytes = 0;    // of shared memory for sums that are not stored
  double partial_buffers = 0;  // units whose sums are not stored, at most

  // Times of the roles
  double fetch_us = 0;            // controller: an instruction
  double load_us = 0;             // loader: beginning with an instruction
  double issue_us = 0;            // loader: asking for a page
  double land_us = 0;             // consumers: seeing a page that memory has answered
  double prepare_us = 0;          // preparers: activations that are asked for at once, …
  double prepare_us_per_kib = 0;  // … and each KiB of them
  double scale_us = 0;            // storer: each row's scale, behind its reading
  double take_us = 0;             // consumer warp: a page into registers
  double multiply_us = 0;         // consumer warp: a page with four rows of the pass
  double chain_us = 0;            // consumer warp, in tile order: a page, one product after the other
  double sm_page_us = 0;          // all consumer warps: a page and four rows, one after the other
  double store_us = 0;            // storer: a tile of results
  double next_tile_us = 0;        // storer: between two tiles of an instruction
  double last_storer_us = 0;      // storers: the last one, where several have something to store
  double signal_us = 0;           // storer: the last store to the counter's increment

  // A tile of a GEMM: all consumer warps together
  double slab_us = 0;          // 64 columns of the tile's weights, however few rows
  double slab_row_us = 0;      // of a tile of 128 outputs, for each row, where that is more
  double part_us_per_kib = 0;  // adding the sums of a part of columns, but of the last, to the residual

  std::vector<OpTimes> ops;  // [kNumOpcodes]

  std::vector<MeasuredToken> measured;
};

// A number of SimParameters that has a name: of the file, of what-ifs and of fitting.
struct SimField {
  const char* name;
  const char* unit;
  double SimParameters::*member;
  double least, most;
  bool whole;  // only whole numbers
};
std::span<const SimField> sim_fields();

// Throws Error(kRuntime), naming `name` and the field: missing, of another unit, out of range, or one that is
// not there.
SimParameters parse_sim_parameters(std::string_view json, const std::string& name);
SimParameters read_sim_parameters(const std::filesystem::path& path);
// configs/h200.sim.json, which the library carries.
const SimParameters& h200_sim_parameters();

// A field, or OP.FIELD of an instruction. Throws as set_sim_parameter().
double sim_parameter(const SimParameters& parameters, std::string_view name);
// Sets a field, or OP.FIELD of an instruction ("attention.fixed_us"). Throws Error(kUsage) if there is none
// of that name, or the value is out of its range.
void set_sim_parameter(SimParameters& parameters, std::string_view name, double value);
// "NAME=VALUE" or "NAME=xFACTOR": "gb_per_s=6000", "round_factor=x0.5". Throws as set_sim_parameter().
void apply_what_if(SimParameters& parameters, std::string_view what_if);

}  // namespace serval
