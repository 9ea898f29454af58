"""The parts of bench/vs_peers: what is compared (programs, install), how (group, protocol), and what comes of it
(targets, figures, report, plot)."""
