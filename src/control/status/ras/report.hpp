// The two forms of NCCL's RAS report, as of NCCL 2.30: for programs that read it (ncclras, Ray Train, SGLang).
#pragma once

#include <string>

#include "control/status/ras/job.hpp"

namespace tutti::control::ras {

/// The version of NCCL whose report this is.
inline constexpr const char* kNcclVersion = "2.30.7";

/// `verbose`: names more of the ranks that differ from the others.
std::string to_text(const Job& job, bool verbose);
/// `timestamp`: "2026-01-31 13:06:53", local time.
std::string to_json(const Job& job, const std::string& timestamp);

}  // namespace tutti::control::ras
