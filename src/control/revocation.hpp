// How a revocation travels where the rendezvous server does not pass it on: from rank to rank.
//
// The server relays failures. If its process is dead or stopped, the rank that revokes tells the process of every
// other rank, over a connection of its own for each. Each process that hears of the revocation so for the first time
// does the same, or tells eight others at random while its channel to the server lasts. So it reaches every process
// that some rank which knows of it can reach, whoever dies meanwhile. Without a server that is, for p processes, a
// connection from each to each other one, p (p − 1). Each takes the others in an order of its own, at random: so the
// number of those that know doubles, and all do after about 2 log2(p) connections one after the other (rumour
// spreading by push; Frieze & Grimmett, The shortest-path problem for graphs with random arc-lengths, Discrete Applied
// Mathematics 1985).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/secret.hpp"
#include "control/messages.hpp"

namespace tutti::control {

/// A process, and its ranks.
struct ToTell {
  Member process;
  std::vector<Rank> ranks;
};

/// The processes of `members` other than that of `me`, in the order in which that one tells them: at random, and always
/// the same for that process.
std::vector<ToTell> processes_to_tell(const std::vector<Member>& members, const Member& me);

/// Tells them of the revocation, one after the other, but not those that are `needless` when it is their turn. One that
/// does not answer soon is tried again at the end, for longer; if that fails, the log names it. Blocks; throws nothing.
void tell_of_revocation(std::vector<ToTell> processes, const Member& me, const Key& key, const std::string& text,
                        const std::function<bool(const ToTell&)>& needless);

}  // namespace tutti::control
