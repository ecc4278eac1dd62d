// Program files of a real model: reading restores what was written, and damaged files only cause an Error.
#include <filesystem>
#include <fstream>
#include <random>
#include <sys/resource.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "models/llama/graph.h"
#include "scheduler/compile.h"
#include "scheduler/report.h"
#include "tests/llama/configs.h"
#include "vm/base/error.h"
#include "vm/program.h"

namespace serval::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

Program llama_program(uint32_t sms, QueueKind kind, int layers = 1) {
  LlamaConfig config = preset_config("llama-3.2-1b");
  config.num_layers = layers;
  return compile(build_llama_graph(config, {.sms = sms, .context = 1024}), h200_machine(),
                 {.policy = std::nullopt, .queue_kind = kind, .context = {}});
}

Program small_program(QueueKind kind) {
  Machine machine = h200_machine();
  machine.sms = 3;
  LlamaConfig config = preset_config("llama-3.2-1b");
  config.num_layers = 1;
  return compile(build_llama_graph(config, {.sms = 3, .context = 128}), machine,
                 {.policy = std::nullopt, .queue_kind = kind, .context = {}});
}

void expect_same(const Program& a, const Program& b) {
  EXPECT_EQ(a.machine, b.machine);
  EXPECT_EQ(a.queue_kind, b.queue_kind);
  EXPECT_EQ(a.num_devices, b.num_devices);
  EXPECT_EQ(a.shape(), b.shape());
  EXPECT_EQ(a.gate_counter, b.gate_counter);
  ASSERT_EQ(a.instructions.size(), b.instructions.size());
  EXPECT_EQ(
      std::memcmp(a.instructions.data(), b.instructions.data(), a.instructions.size() * kInstructionBytes),
      0);
  EXPECT_EQ(a.queue_begin, b.queue_begin);
  EXPECT_EQ(a.waits, b.waits);
  EXPECT_EQ(a.signals, b.signals);
  EXPECT_EQ(a.counters, b.counters);
  EXPECT_EQ(a.tensors, b.tensors);
  EXPECT_EQ(a.metadata, b.metadata);
}

TEST(ProgramFile, ReadsBackWhatItWrote) {
  for (const QueueKind kind : {QueueKind::kPerSm, QueueKind::kGlobal}) {
    for (const Program& p : {llama_program(132, kind, 2), small_program(kind)}) {
      const std::vector<std::byte> bytes = serialise(p);
      const Program back = deserialise(bytes, "memory");
      expect_same(p, back);
      EXPECT_EQ(serialise(back), bytes);
      EXPECT_EQ(disassemble(back), disassemble(p));
    }
  }
}

// Names are printed, also to terminals.
TEST(ProgramFile, RefusesControlCharactersInText) {
  Program p = small_program(QueueKind::kPerSm);
  std::vector<std::byte> bytes = serialise(p);
  const std::string& name = p.tensors.front().name;
  const auto* begin = reinterpret_cast<const char*>(bytes.data());
  const size_t at = std::string_view(begin, bytes.size()).find(name);
  for (const char c : {'\0', '\n', '\x1b', '\x7f'}) {
    bytes[at] = static_cast<std::byte>(c);
    EXPECT_THAT([&] { deserialise(bytes, "memory"); },
                ::testing::ThrowsMessage<Error>("memory: tensor.name: contains a control character"));
    p.tensors.front().name = c;
    EXPECT_THROW(serialise(p), Error);
  }
}

TEST(ProgramFile, GoesThroughAFile) {
  const auto path = std::filesystem::path(::testing::TempDir()) / "serval_program_test.bin";
  const Program p = small_program(QueueKind::kPerSm);
  write_program(p, path);
  expect_same(p, read_program(path));
  std::filesystem::remove(path);
  const auto read_error = [](const std::filesystem::path& from) {
    try {
      read_program(from);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("accepted");
  };
  EXPECT_THAT(read_error(path), StartsWith(path.string()));
  EXPECT_THAT(read_error(::testing::TempDir()), HasSubstr(::testing::TempDir()));
  EXPECT_THROW(write_program(p, path / "beneath" / "nothing"), Error);
}

// The result of reading damaged bytes: an error line, or a structurally valid program.
std::string outcome(std::span<const std::byte> bytes) {
  try {
    const Program p = deserialise(bytes, "damaged");
    check_structure(p);
    return "accepted";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::kRuntime);
    EXPECT_THAT(e.what(), StartsWith("damaged: "));
    EXPECT_THAT(e.what(), ::testing::Not(HasSubstr("\n")));
    return e.what();
  }
}

// While it lives, an allocation of a false size fails instead of being granted lazily.
class AddressSpaceLimit {
 public:
  AddressSpaceLimit() {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    getrlimit(RLIMIT_AS, &before_);
    rlimit tight = before_;
    tight.rlim_cur = rlim_t{1} << 30;
    setrlimit(RLIMIT_AS, &tight);
#endif
  }
  ~AddressSpaceLimit() {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    setrlimit(RLIMIT_AS, &before_);
#endif
  }

 private:
  [[maybe_unused]] rlimit before_{};
};

TEST(ProgramFile, RefusesEveryTruncation) {
  const AddressSpaceLimit limit;
  const std::vector<std::byte> bytes = serialise(small_program(QueueKind::kPerSm));
  for (size_t size = 0; size < bytes.size(); ++size) {
    ASSERT_NE(outcome(std::span(bytes).first(size)), "accepted") << size;
  }
}

TEST(ProgramFile, RefusesBytesBeyondTheEnd) {
  std::vector<std::byte> bytes = serialise(small_program(QueueKind::kPerSm));
  bytes.push_back(std::byte{0});
  EXPECT_THAT(outcome(bytes), HasSubstr("1 bytes too many"));
}

TEST(ProgramFile, NamesAForeignFileAndAnotherVersion) {
  std::vector<std::byte> bytes = serialise(small_program(QueueKind::kPerSm));
  bytes[8] = std::byte{99};
  EXPECT_THAT(outcome(bytes), HasSubstr("version: 99"));
  bytes[8] = std::byte{3};  // from before the order and the heads were the program's
  EXPECT_THAT(outcome(bytes), HasSubstr("version: 3, this build reads 4: compile the program again"));
  bytes[0] = std::byte{'X'};
  EXPECT_THAT(outcome(bytes), HasSubstr("not a Serval program"));
  EXPECT_THAT(outcome({}), HasSubstr("magic"));
}

// A program that passes the checks may be printed and timed without crashing, hanging or allocating the size
// that a field claims.
void use(std::span<const std::byte> bytes) {
  try {
    const Program p = deserialise(bytes, "damaged");
    for (const Instruction& i : p.instructions) {
      if (!check_instruction(p, i).empty()) return;
    }
    disassemble(p);
    statistics_of(p, {});
  } catch (const Error&) {
  }
}

TEST(ProgramFile, SurvivesFlippedBytes) {
  const AddressSpaceLimit limit;
  std::mt19937 random(1);
  for (const QueueKind kind : {QueueKind::kPerSm, QueueKind::kGlobal}) {
    const std::vector<std::byte> bytes = serialise(small_program(kind));
    int accepted = 0;
    constexpr int kRounds = 3000;
    for (int round = 0; round < kRounds; ++round) {
      std::vector<std::byte> damaged = bytes;
      for (uint32_t n = 1 + random() % 3; n > 0; --n) {
        damaged[random() % damaged.size()] = static_cast<std::byte>(random());
      }
      accepted += outcome(damaged) == "accepted" ? 1 : 0;
      if (round % 4 == 0) use(damaged);
    }
    EXPECT_LT(accepted, kRounds);
  }
}

// Every field of the header, which contains lengths and counts, takes extreme values.
TEST(ProgramFile, SurvivesExtremeWordsAnywhere) {
  const AddressSpaceLimit limit;
  for (const QueueKind kind : {QueueKind::kPerSm, QueueKind::kGlobal}) {
    const std::vector<std::byte> bytes = serialise(small_program(kind));
    for (const uint32_t word : {0U, 1U, 0x7fffffffU, 0x80000000U, 0xffffffffU, 0x10000000U}) {
      for (size_t at = 0; at + sizeof word <= bytes.size(); at += at < 256 ? 1 : 97) {
        std::vector<std::byte> damaged = bytes;
        std::memcpy(damaged.data() + at, &word, sizeof word);
        outcome(damaged);
        if (at < 256) use(damaged);
      }
    }
  }
}

}  // namespace
}  // namespace serval::testing
