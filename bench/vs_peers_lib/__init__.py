"""The parts of bench/vs_peers: what is compared (programs, install), how (crew, protocol), and what comes of it
(targets, figures, report, plot)."""
