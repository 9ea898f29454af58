tutti_transport_conformance(ucx processes 2 3 REDUCED MODULE tutti_ucx ENVIRONMENT UCX_TLS=tcp,self)
