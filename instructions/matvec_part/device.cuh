#pragma once

#include "instructions/matvec_part/op.h"
