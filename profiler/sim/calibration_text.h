// configs/h200.sim.json as text, made by the build (CMakeLists.txt).
#pragma once

namespace serval {

extern const char* const kH200Calibration;

}  // namespace serval
