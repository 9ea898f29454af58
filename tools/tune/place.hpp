// The file that `tutti tune` writes, and what it may replace there.
#pragma once

#include <string>

#include "select/profile.hpp"

namespace tutti::tools {

/// What an earlier run has written there; empty if it cannot be read, which is told on stderr if there is a speaker.
select::Profile earlier_profile(const std::string& path, const char* speaker = nullptr);

/// Found out before minutes of measurements: the file is replaced as a whole, and only one of this machine is added to.
/// Throws Error(InvalidArgument).
void check_place(const std::string& path);

/// Times of the tests' stand-in for NVIDIA's driver mean nothing: they get a file of their own. Throws
/// Error(InvalidUsage) for the cache folder's (`unnamed`), and for a file with times of a real machine.
void refuse_stand_in(const select::MeasuredGpus& gpus, const std::string& path, bool unnamed);

/// The GPUs, and what messages between them take. Times of other GPUs go, with a word on stdout.
void take_gpus(const select::Profile& measured, select::Profile& profile, const std::string& path);

/// The machines on which it was measured, beside those that are known.
void take_machines(const select::Profile& measured, select::Profile& profile);

}  // namespace tutti::tools
