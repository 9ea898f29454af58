tutti_transport_conformance(shm processes 1 2 3 5 8 FORCED 4 7 11 16)
