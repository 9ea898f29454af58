// Whose a TCP connection of this host is.
#pragma once

namespace tutti::control {

/// Is the other end of this TCP connection a process of this host that belongs to another user (and not to root)?
/// False where the kernel cannot tell: the peer is on another host, or in another network namespace.
bool is_other_users(int fd);

}  // namespace tutti::control
