// A program that the validator has accepted. Backends bind no other.
#pragma once

#include <utility>

#include "scheduler/validate.h"
#include "vm/program.h"

namespace serval {

class ValidProgram {
 public:
  // Throws as require_valid().
  explicit ValidProgram(Program program) : program_(std::move(program)) { require_valid(program_); }

  const Program& operator*() const { return program_; }
  const Program* operator->() const { return &program_; }

 private:
  Program program_;
};

}  // namespace serval
