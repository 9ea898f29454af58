tutti_transport_conformance(tcp processes 1 2 3 5 8)
tutti_transport_conformance(tcp threads 3 NAME tcp-threads)
tutti_transport_conformance(tcp processes 3 NAME tcp.streams ENVIRONMENT TUTTI_TCP_STREAMS=3)
set_property(TEST conformance.tcp.streams.n3 APPEND PROPERTY LABELS full)
