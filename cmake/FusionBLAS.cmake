# OpenBLAS for the host runtime.
