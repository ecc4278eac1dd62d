// The megakernel that records events, in a file of its own: the two are compiled at the same time.
#include "instructions/device_kernel.cuh"

namespace serval {

DeviceKernel recording_device_kernel() {
  return device::device_kernel<device::LlamaIsa, device::EventRecorder>();
}

}  // namespace serval
