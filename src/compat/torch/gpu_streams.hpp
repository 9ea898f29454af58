// PyTorch's streams of GPUs, by c10's interface of devices and the driver's own functions: nothing of CUDA is needed to
// build this, and a PyTorch without CUDA loads it.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include "tutti/tutti.h"

namespace tutti_torch {

/// The stream that this thread's operations on the device go to.
c10::Stream current_stream(c10::Device device);
/// One of PyTorch's streams that programs share, not the default one.
c10::Stream pooled_stream(c10::Device device);
/// The stream as CUDA has it. Throws Error(Unsupported) where PyTorch's GPUs are not CUDA's.
tuttiStream_t handle_of(const c10::Stream& stream);
/// Is what is enqueued on the stream captured in a graph? A thread without a context gets the device's.
bool is_capturing(const c10::Stream& stream);
/// What is enqueued on `after` from now on waits for what is on `before`. `event` may be used again afterwards.
void order(c10::Event& event, const c10::Stream& before, const c10::Stream& after);
/// The device's context becomes this thread's, as the driver has it: communicators take their GPU from there.
void use_device(c10::Device device);

/// This thread may ask the driver about events and streams while another one captures a graph.
void allow_beside_captures();

}  // namespace tutti_torch
