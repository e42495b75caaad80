// Lets torch believe in a GPU where there is none: one device, streams and events that do nothing.
// Autograd asks for them; everything else is done in device.py. Loaded before torch.

#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

namespace {

using c10::Device;
using c10::DeviceIndex;
using c10::Stream;

struct Hooks final : at::CUDAHooksInterface {
  explicit Hooks(at::CUDAHooksArgs) {}
  void init() const override {}
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasCUDA() const override { return true; }
  bool hasPrimaryContext(DeviceIndex) const override { return true; }
  DeviceIndex deviceCount() const override { return 1; }
  DeviceIndex getCurrentDevice() const override { return 0; }
  long versionCuDNN() const override { return 0; }
  long versionRuntimeCuDNN() const { return 0; }  // of newer versions
};

struct Guard final : c10::impl::DeviceGuardImplInterface {
  Device device() const { return Device(c10::DeviceType::CUDA, 0); }
  Stream stream() const { return Stream(Stream::DEFAULT, device()); }
  c10::DeviceType type() const override { return c10::DeviceType::CUDA; }
  Device exchangeDevice(Device) const override { return device(); }
  Device getDevice() const override { return device(); }
  void setDevice(Device) const override {}
  void uncheckedSetDevice(Device) const noexcept override {}
  Stream getStream(Device) const override { return stream(); }
  Stream exchangeStream(Stream) const override { return stream(); }
  DeviceIndex deviceCount() const noexcept override { return 1; }
  void record(void**, const Stream&, DeviceIndex, c10::EventFlag) const override {}
  void block(void*, const Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  void destroyEvent(void*, DeviceIndex) const noexcept override {}
};

const Guard guard;

}  // namespace

// Where torch is built for CUDA, its own are registered later: ours have the higher priority.
namespace at {
C10_REGISTER_TYPED_CLASS_WITH_PRIORITY(
    CUDAHooksRegistry, "CUDAHooks", c10::REGISTRY_PREFERRED, Hooks)
}  // namespace at

// The last guard that is stored counts, so this is called when torch is loaded.
extern "C" void register_guard() {
  const auto place = static_cast<size_t>(c10::DeviceType::CUDA);
  c10::impl::device_guard_impl_registry[place].store(&guard);
}
