#pragma once

#include "instructions/project_part/op.h"
