tutti_transport_conformance(shm processes 1 2 3 5 8 FORCED 4 7 11 16)
tutti_transport_conformance(shm processes 3 NAME shm.streamed ENVIRONMENT TUTTI_STREAM_STAGING=1)
