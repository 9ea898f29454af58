#pragma once

namespace fake {

/// Faults of GPU threads end their kernel, from now on.
void catch_faults();
/// Signals of this system thread get a stack of their own.
void use_signal_stack();

}  // namespace fake
