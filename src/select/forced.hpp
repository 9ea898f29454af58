// What the user demands of the choice: TUTTI_ALGO and TUTTI_METHOD.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "plan/order.hpp"

namespace tutti::select {

/// Reads "all_reduce:ring,bcast:binomial", with collectives as in base/spelling.hpp. Throws Error(InvalidArgument),
/// which names TUTTI_ALGO and the unknown word.
std::map<std::string, std::string> parse_forced(const std::string& text);

/// Reads "nvls" (key "": for all collectives that it can run) or "all_reduce:nvls,all_gather:copy_engine". Throws
/// Error(InvalidArgument), which names TUTTI_METHOD and the unknown word.
std::map<std::string, std::string> parse_forced_methods(const std::string& text);

/// What is to be said of such methods where calls are on memory of the host alone: "" if they are the host's, else that
/// they do not concern these calls.
std::string not_of_host(const std::map<std::string, std::string>& forced_methods);

/// Reads TUTTI_ORDER for so many ranks: "natural", or "0,2,1,3". None: it says nothing of them. Throws
/// Error(InvalidArgument).
std::optional<plan::RankOrder> parse_order(const std::string& text, Rank ranks);

/// TUTTI_METHOD; or what TUTTI_CUDA_WIRE, its name until version 0.1, means by it, with a warning. Once a process.
std::string forced_methods_text();

}  // namespace tutti::select
